package process

import "github.com/millrace/millrace/internal/kit/settings"

// Keys is a row for each key of Config, below the section that it is in.
var Keys = settings.Table{Keys: []settings.Key{
	{Path: "command", Example: "vllm serve Qwen/Qwen2.5-7B-Instruct --port {port} --enable-lora",
		Doc: "what starts one engine: words as in a shell, with quotes, in which {port}, {host}, {id}, {gpus} and " +
			"{millrace}, which is this program, are filled in"},
	{Path: "env", Example: "[VLLM_ALLOW_RUNTIME_LORA_UPDATING=True]",
		Doc: "what engines have in their environment besides the worker's, as NAME=value; the worker's own variables, " +
			"such as MILLRACE_TOKENS, they do not get"},
	{Path: "dir", Example: "/srv/vllm", Doc: "where engines are started; if not given, where the worker was"},
	{Path: "gpus", Example: `["0,1", "2,3"]`,
		Doc: "sets of GPUs: each engine has one of its own, as CUDA_VISIBLE_DEVICES, and waits until one is free; if not " +
			"given, engines are not told of any"},
	{Path: "host", Example: "10.0.0.7",
		Doc: "the address of this host at which workers reach its engines; 127.0.0.1, if not given"},
	{Path: "ports", Example: DefaultPorts,
		Doc: "the range that engines' ports are taken from, none that is in use; " + DefaultPorts + ", if not given"},
	{Path: "max_in_flight", Min: settings.Bound(0), Max: settings.Bound(100_000),
		Doc: "requests at a time at one engine, over all workers; 0 leaves it to the service"},
	{Path: "grace", Min: settings.Bound(0), Max: settings.Bound(3600), Example: "30s",
		Doc: "how long an engine may take to end once it is told to; then it is killed. 0s: 30s"},
	{Path: "state_dir", Example: "/var/lib/millrace/engines",
		Doc: "a folder of this host that outlives the worker, with engines' orders and logs. If not given, " +
			"millrace/engines in $XDG_STATE_HOME, ~/.local/state or the folder for temporary files"},
	{Path: "log_bytes", Min: settings.Bound(0), Max: settings.Bound(1 << 40), Bytes: true, Example: "16MiB",
		Doc: "bound of an engine's log, of which a part of the same size that was full before is kept, too; 0: 16MiB"},
	{Path: "lifeline", Example: "/run/millrace.lock",
		Doc: "a file: engines end when nobody holds a lock (flock) on it any more; if not given, they end when they are " +
			"stopped, and outlive every worker"},
}}
