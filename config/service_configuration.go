package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/engine/address/discovery"
	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/kit/settings/document"
	"github.com/millrace/millrace/internal/process/connections"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/redisserver"
	"github.com/millrace/millrace/worker/workerconfig"
)

// Service is the configuration of the processes: server, worker, and dev, which is both. Secrets are not in
// the file: they come from the environment.
type Service struct {
	workerconfig.Config
	Listen   string    `json:"listen"`
	LogLevel string    `json:"log_level"`
	TLS      TLS       `json:"tls"`
	Auth     Auth      `json:"auth"`
	Axiom    Axiom     `json:"axiom"`
	Limits   APILimits `json:"limits"`
	Scaling  *Scaling  `json:"scaling"` // nil: the fleet is not scaled

	Source *Source              `json:"-"` // where it was read; nil: it is not read again
	Tokens []connections.Secret `json:"-"` // MILLRACE_TOKENS, separated by commas
}

// ForWorker is what a worker is told.
func (s Service) ForWorker() workerconfig.Config {
	cfg := s.Config
	if s.Scaling != nil {
		cfg.Scaling = &s.Scaling.Scaling
	}
	return cfg
}

// TLS is the certificate of the HTTP API, read again when its files change. Without one the API speaks plain HTTP.
type TLS struct {
	CertFile     string `json:"cert_file"`
	KeyFile      string `json:"key_file"`
	ClientCAFile string `json:"client_ca_file"`
}

// Enabled reports whether the API speaks TLS.
func (t TLS) Enabled() bool { return t.CertFile != "" }

// Auth is who may do what, beside the operators of MILLRACE_TOKENS.
type Auth struct {
	TokensFile     string   `json:"tokens_file"`
	TrustedProxies []string `json:"trusted_proxies"`
}

// Axiom is where events are shipped to. Nothing is shipped without a dataset and a token.
type Axiom struct {
	Dataset string `json:"dataset"`
	URL     string `json:"url"`
	OrgID   string `json:"org_id,omitempty"` // needed with personal tokens only

	Token connections.Secret `json:"-"` // AXIOM_TOKEN
}

// Enabled reports whether events are shipped.
func (a Axiom) Enabled() bool { return a.Dataset != "" && a.Token != "" }

// APILimits bound what a client of the API may ask for.
type APILimits struct {
	MaxBodyBytes int64            `json:"max_body_bytes"`
	ClaimWait    rollout.Duration `json:"claim_wait"`

	Runs                  int `json:"runs"`
	GamesPerRun           int `json:"games_per_run"`
	Engines               int `json:"engines"`
	Requests              int `json:"requests"`
	WaitingClaims         int `json:"waiting_claims"`
	Streams               int `json:"streams"`
	Connections           int `json:"connections"`
	ConnectionsPerAddress int `json:"connections_per_address"`
	StepMetricsBytes      int `json:"step_metrics_bytes"`
}

// DefaultService is the configuration where no file says anything: everything on this machine, at its usual port.
func DefaultService() Service {
	return Service{
		Listen: "127.0.0.1:8700", LogLevel: "info",
		Axiom:  Axiom{URL: "https://api.axiom.co"},
		Limits: defaultLimits(),
		Config: workerconfig.Config{
			Config: connections.Config{
				Redis: connections.Redis{URL: "redis://127.0.0.1:6379/0", Prefix: "millrace",
					WaitFor: rollout.Duration(time.Second)},
				Temporal:    connections.Temporal{Address: "127.0.0.1:7233", Namespace: "default", TaskQueuePrefix: "millrace"},
				OTel:        connections.OTel{TraceRatio: 0.1},
				Spool:       connections.Spool{MaxBytes: 256 << 20},
				RetainSteps: 2,
			},
			RetentionRuns: 10_000,
			Worker:        workerconfig.Worker{DispatchQueue: 16384, Preflight: "refuse", Listen: workerconfig.DefaultListen},
		},
	}
}

// defaultLimits is what nobody notices who uses the service as it is meant to be used.
func defaultLimits() APILimits {
	return APILimits{
		MaxBodyBytes: 1 << 20, ClaimWait: rollout.Duration(time.Minute),
		Runs: 50, GamesPerRun: 8192, Engines: 256, Requests: 256, WaitingClaims: 4096, Streams: 256,
		Connections: 8192, ConnectionsPerAddress: 128, StepMetricsBytes: 32 << 10,
	}
}

func limit(x float64) *float64 { return settings.Bound(x) }

// ServiceSchema is the JSON schema of the service's configuration; schema/service.schema.json holds it.
func ServiceSchema() []byte {
	defaults := DefaultService()
	return serviceTable.Schema("Millrace service configuration", &defaults)
}

var serviceTable = settings.Table{
	Keys: append(scalingRows(), []settings.Key{
		{Path: "listen", Required: true, Example: "0.0.0.0:8700",
			Doc: "address of the HTTP API, host:port; anything but a loopback address needs tokens"},
		{Path: "log_level", OneOf: []string{"debug", "info", "warn", "error"}, Live: true,
			Doc: "the least that is logged; MILLRACE_LOG_LEVEL and --log-level take its place"},
		{Path: "page_url", Example: "https://millrace.example.org/rl",
			Doc: "where people reach the operator's page, for links to it; MILLRACE_PAGE_URL takes its place. If not given, " +
				"the address where a server listens, unless that is every interface"},
		{Path: "tls", Doc: "the API's certificate, read again when its files change; plain HTTP without one"},
		{Path: "tls.cert_file", Doc: "certificate chain, PEM"},
		{Path: "tls.key_file", Doc: "its key, PEM"},
		{Path: "tls.client_ca_file",
			Doc: "authorities, PEM, of which every client must show a certificate; none is asked for, if not given"},
		{Path: "auth", Doc: "who may do what, beside MILLRACE_TOKENS, whose bearers are operators (docs/security.md)"},
		{Path: "auth.tokens_file", Example: "/etc/millrace/tokens.yaml",
			Doc: "roles and the hashes of their tokens, read again when it changes; MILLRACE_TOKENS_FILE takes its " +
				"place"},
		{Path: "auth.trusted_proxies", Live: true, Example: "[10.0.0.0/24]",
			Doc: "networks of proxies whose X-Forwarded-For names the client, in audits and for the limits by address"},
		{Path: "redis", Doc: "where the buffer is"},
		{Path: "redis.url", Required: true,
			Doc: "redis://, redis+sentinel:// or redis+cluster:// address (rediss for TLS), or unix://; " +
				"MILLRACE_REDIS_URL takes its place when it holds a password"},
		{Path: "redis.prefix", Required: true, Doc: "of every key, so that deployments can share a Redis"},
		{Path: "redis.wait_replicas",
			Doc: "how many replicas must have a grant, a step's record or a new trainer before it is answered " +
				"(docs/guarantees.md)"},
		{Path: "redis.wait_for", Doc: "how long they may take; then the call is refused, to be asked again"},
		{Path: "temporal", Doc: "where the workflows are"},
		{Path: "temporal.address", Required: true,
			Doc: "host:port of Temporal's frontend; TEMPORAL_ADDRESS takes its place"},
		{Path: "temporal.namespace", Required: true, Doc: "Temporal namespace; TEMPORAL_NAMESPACE takes its place"},
		{Path: "temporal.task_queue_prefix", Required: true,
			Doc: "of the task queues and workflow ids, so that deployments can share a namespace"},
		{Path: "temporal.tls", Doc: "whether to speak TLS; always with TEMPORAL_API_KEY"},
		{Path: "temporal.ui_url", Example: "http://127.0.0.1:8233",
			Doc: "Temporal's web UI, to which the operator's page links (docs/temporal.md); TEMPORAL_UI_URL takes its place"},
		{Path: "axiom", Doc: "where events are shipped to; the token comes from AXIOM_TOKEN"},
		{Path: "axiom.dataset", Doc: "Axiom dataset; nothing is shipped without one"},
		{Path: "axiom.url", Required: true, Doc: "address of Axiom"},
		{Path: "axiom.org_id", Doc: "organisation of a personal token (xapt-); API tokens (xaat-) have their own"},
		{Path: "otel", Doc: "where traces and metrics are exported to by OTLP over HTTP (docs/metrics.md)"},
		{Path: "otel.endpoint", Example: "http://127.0.0.1:4318",
			Doc: "base address of a collector; OTEL_EXPORTER_OTLP_ENDPOINT takes its place; nothing is exported without " +
				"one"},
		{Path: "otel.trace_ratio", Min: limit(0), Max: limit(1),
			Doc: "share of the groups that are traced, with their games, turns and calls of engines; " +
				"OTEL_TRACES_SAMPLER_ARG takes its place"},
		{Path: "spool", Doc: "where facts wait on the disk while Redis does not answer (docs/telemetry.md)"},
		{Path: "spool.dir", Example: "/var/lib/millrace/spool",
			Doc: "a folder that outlives the process; MILLRACE_SPOOL_DIR takes its place. If not given, millrace/spool " +
				"in $XDG_STATE_HOME, ~/.local/state or the folder for temporary files"},
		{Path: "spool.max_bytes", Min: limit(0), Max: limit(1 << 40),
			Doc: "bound of one process; facts beyond it are lost, and counted. 0: facts wait in memory only"},
		{Path: "limits", Doc: "what a client of the API may ask for"},
		{Path: "limits.max_body_bytes", Live: true, Min: limit(1 << 10), Max: limit(64 << 20), Doc: "size of a request"},
		{Path: "limits.claim_wait", Live: true, Above: limit(0), Max: limit(600),
			Doc: "the longest that a claim may wait, whatever it asks for"},
		{Path: "limits.runs", Live: true, Min: limit(1), Max: limit(100_000),
			Doc: "runs that go on at a time; one more is refused"},
		{Path: "limits.games_per_run", Live: true, Min: limit(1), Max: limit(100_000_000),
			Doc: "games that one run may have outstanding: buffer.depth x buffer.groups_per_step x (group.samples + " +
				"group.oversample)"},
		{Path: "limits.engines", Live: true, Min: limit(1), Max: limit(100_000),
			Doc: "engines in the fleet, those that engines_from names not counted against it"},
		{Path: "limits.requests", Live: true, Min: limit(8), Max: limit(100_000),
			Doc: "requests in progress at a time in one server; claims that wait and streams are not among them"},
		{Path: "limits.waiting_claims", Live: true, Min: limit(8), Max: limit(1_000_000),
			Doc: "claims that wait at a time in one server; three quarters of them for one run at most"},
		{Path: "limits.streams", Live: true, Min: limit(4), Max: limit(100_000),
			Doc: "streams of events at a time in one server; three quarters of them for one run at most"},
		{Path: "limits.connections", Live: true, Min: limit(16), Max: limit(1_000_000),
			Doc: "connections open at a time in one server; its limit of open files, less 64, lowers it"},
		{Path: "limits.connections_per_address", Live: true, Min: limit(4), Max: limit(1_000_000),
			Doc: "connections open at a time from one address that have not shown a token yet"},
		{Path: "limits.step_metrics_bytes", Live: true, Min: limit(64), Max: limit(1 << 20),
			Doc: "metrics of one step record, as JSON; every record is kept"},
		{Path: "retain_steps", Min: limit(0), Max: limit(1000),
			Doc: "steps whose batches are kept after they were trained on, for a trainer that goes back to a " +
				"checkpoint"},
		{Path: "retention", Live: true, Min: limit(0), Example: "30d",
			Doc: "how long a run is kept once it is over; then a worker deletes it. 0: until somebody does"},
		{Path: "retention_runs", Live: true, Min: limit(0), Max: limit(1_000_000),
			Doc: "how many runs are kept that are over, the newest ones; a worker deletes the others. 0: all"},
		{Path: "worker", Doc: "bounds of one worker process"},
		{Path: "worker.games", Min: limit(0), Max: limit(100_000),
			Doc: "games played at a time; 0: as many as fit into the memory that the worker may use"},
		{Path: "worker.dispatch_queue", Min: limit(1), Max: limit(1_000_000),
			Doc: "requests that may wait for an engine"},
		{Path: "worker.preflight",
			OneOf: []string{"refuse", "warn", "off"},
			Doc: "what a worker does that cannot go on with what another version has begun (docs/upgrades.md): end " +
				"with an error, log one and go on, or not look"},
		{Path: "worker.listen", Example: "127.0.0.1:8701",
			Doc: "host:port of /healthz, /readyz and /metrics, which ask for no token (docs/security.md); empty: none; " +
				"where the default is taken, by another worker of this machine, a worker goes on without"},
		{Path: "worker.dispatch_log", Example: "dispatch.log",
			Doc: "a file for every event that the worker's dispatcher is given and what it decides, up to 1 GiB, which " +
				"millrace-lab replay-dispatch replays; none, if not given"},
		{Path: "engines", Live: true, Doc: "engines that are in the fleet from the start; others join over the API"},
		{Path: "engines.id", Doc: "the engine's name; made from its address, if not given"},
		{Path: "engines.url", Required: true, Example: "http://10.0.0.7:8000",
			Doc: "http://host:port of a vLLM server, without /v1"},
		{Path: "engines_from", Live: true, Example: "dns:vllm.internal:8000",
			Doc: "a list of engines that is read every 10 s: file:/path with an address per line, or dns:name:port; " +
				"engines that it no longer names leave when they have finished"},
		{Path: "engine_urls",
			Doc: "where engines may be, and which key and TLS they are reached with (docs/engines.md)"},
		{Path: "engine_urls.allow", Example: "10.0.0.0/8",
			Doc: "ranges, hosts such as *.gpu.internal, or beginnings of URLs; no other engines may be added; empty: " +
				"any but link-local and the like"},
		{Path: "engine_urls.deny", Doc: "the same, of where no engine may be, whatever allow says"},
		{Path: "engine_urls.keys_file",
			Doc: "an absolute path; lines of engines, as in allow, and their API key; read again when it changes"},
		{Path: "engine_urls.tls",
			Doc: "how connections to some https engines are secured; the first entry that means an engine holds"},
		{Path: "engine_urls.tls.engines", Required: true, Example: "https://*.gpu.internal",
			Doc: "which engines, as in allow"},
		{Path: "engine_urls.tls.ca_file",
			Doc: "PEM file of who may have signed the engine's certificate; empty: who the system trusts"},
		{Path: "engine_urls.tls.cert_file",
			Doc: "PEM file of the certificate that the service shows; read for each connection"},
		{Path: "engine_urls.tls.key_file", Doc: "PEM file of its key"},
		{Path: "engine_urls.tls.server_name",
			Doc: "the name that the engine's certificate is for; empty: the host of its address"},
		{Path: "engines.max_in_flight", Min: limit(0), Max: limit(100_000),
			Doc: "requests at a time, over all workers; 0 leaves it to the service"},
	}...),
	Hints: map[string]string{
		"tokens":           "secrets do not belong in this file; set the environment variable MILLRACE_TOKENS",
		"token":            "secrets do not belong in this file; set the environment variable MILLRACE_TOKENS",
		"axiom.token":      "secrets do not belong in this file; set the environment variable AXIOM_TOKEN",
		"temporal.api_key": "secrets do not belong in this file; set the environment variable TEMPORAL_API_KEY",
		"redis.password":   "secrets do not belong in this file; set the environment variable MILLRACE_REDIS_URL",
	},
}

// ReadService reads the service's configuration from YAML, nil meaning that there is no file, and lets
// environment variables take the place of what it says. Flags come last and are the caller's. Its error is
// settings.Faults.
func ReadService(name string, data []byte, getenv func(string) string) (Service, error) {
	service := DefaultService()
	if data == nil {
		data = []byte("{}")
	}
	d := document.Open(serviceTable, name, data, &service)
	if !d.Readable() {
		return Service{}, d.Err()
	}
	service.environment(getenv)
	service.PageURL = strings.TrimSuffix(service.PageURL, "/")
	d.Check(&service)
	checkService(d, &service)
	if err := d.Err(); err != nil {
		return Service{}, err
	}
	return service, nil
}

// environment applies the variables that are set.
func (s *Service) environment(getenv func(string) string) {
	for name, text := range map[string]*string{
		"MILLRACE_LISTEN":        &s.Listen,
		"MILLRACE_LOG_LEVEL":     &s.LogLevel,
		"MILLRACE_PAGE_URL":      &s.PageURL,
		"MILLRACE_WORKER_LISTEN": &s.Worker.Listen,
		"MILLRACE_DISPATCH_LOG":  &s.Worker.DispatchLog,
		"MILLRACE_SPOOL_DIR":     &s.Spool.Dir,
		"MILLRACE_REDIS_URL":     &s.Redis.URL,
		"MILLRACE_TOKENS_FILE":   &s.Auth.TokensFile,
		"TEMPORAL_ADDRESS":       &s.Temporal.Address,
		"TEMPORAL_NAMESPACE":     &s.Temporal.Namespace,
		"TEMPORAL_UI_URL":        &s.Temporal.UIURL,
		"AXIOM_DATASET":          &s.Axiom.Dataset,
		"AXIOM_URL":              &s.Axiom.URL,
		"AXIOM_ORG_ID":           &s.Axiom.OrgID,
	} {
		if v := getenv(name); v != "" {
			*text = v
		}
	}
	s.OTel.Environment(getenv)
	s.Axiom.Token = connections.Secret(getenv("AXIOM_TOKEN"))
	s.Temporal.APIKey = connections.Secret(getenv("TEMPORAL_API_KEY"))
	s.EngineAPIKey = connections.Secret(getenv("MILLRACE_ENGINE_API_KEY"))
	s.Tokens = nil
	for token := range strings.SplitSeq(getenv("MILLRACE_TOKENS"), ",") {
		if token = strings.TrimSpace(token); token != "" {
			s.Tokens = append(s.Tokens, connections.Secret(token))
		}
	}
}

// checkService is the rules for addresses. Whether the API may listen where it should is api.Config's to say: a
// worker does not listen.
func checkService(d *document.Document, s *Service) {
	check := func(path, text, want string, ok bool) {
		if text != "" && !ok {
			d.FaultOnce(path, "%q is not %s", text, want)
		}
	}
	check("listen", s.Listen, "host:port, such as 127.0.0.1:8700", hostPort(s.Listen))
	host, _, _ := net.SplitHostPort(s.Worker.Listen) // its own fault is told below
	check("worker.listen", s.Worker.Listen, "host:port with a host, such as 127.0.0.1:8701, or 0.0.0.0:8701 for "+
		"every interface",
		hostPort(s.Worker.Listen) && host != "")
	check("temporal.address", s.Temporal.Address, "host:port, such as 127.0.0.1:7233", hostPort(s.Temporal.Address))
	if _, err := redisserver.Parse(s.Redis.URL); err != nil && s.Redis.URL != "" {
		d.FaultOnce("redis.url", "%v", err) // it may hold a password, and is not shown
	}
	if s.Redis.WaitReplicas < 0 {
		d.Fault("redis.wait_replicas", "%d replicas: want 0 or more", s.Redis.WaitReplicas)
	}
	if s.Redis.WaitFor <= 0 {
		d.Fault("redis.wait_for", "%v: want a time, such as 1s", s.Redis.WaitFor.Std())
	}
	check("page_url", s.PageURL, "an http or https address", address(s.PageURL, "http", "https"))
	check("temporal.ui_url", s.Temporal.UIURL, "an http or https address", address(s.Temporal.UIURL, "http", "https"))
	check("otel.endpoint", s.OTel.Endpoint, "an http or https address", address(s.OTel.Endpoint, "http", "https"))
	check("axiom.url", s.Axiom.URL, "an http or https address", address(s.Axiom.URL, "http", "https"))
	if s.EnginesFrom != "" {
		_, err := discovery.ParseSource(s.EnginesFrom)
		check("engines_from", s.EnginesFrom, "file:/path or dns:name:port", err == nil)
	}
	for _, err := range settings.Each(s.EngineURLs.Validate()) {
		at, text, _ := strings.Cut(err.Error(), ": ")
		d.FaultOnce("engine_urls."+at, "%s", text)
	}
	checkScaling(d, s.Scaling)
	addresses, _ := s.EngineURLs.Rules() // its faults have been told
	if (s.TLS.CertFile == "") != (s.TLS.KeyFile == "") {
		d.Fault("tls", "cert_file and key_file belong together: set both, or none")
	}
	if s.TLS.ClientCAFile != "" && !s.TLS.Enabled() {
		d.Fault("tls.client_ca_file", "certificates of clients are only shown over TLS: set cert_file and key_file, too")
	}
	for i, network := range s.Auth.TrustedProxies {
		if _, err := netip.ParsePrefix(network); err != nil {
			d.Fault(fmt.Sprintf("auth.trusted_proxies[%d]", i), "%q is not a network such as 10.0.0.0/24 or "+
				"10.0.0.7/32", network)
		}
	}
	urls, ids := map[string]int{}, map[rollout.EngineID]int{}
	for i, e := range s.Engines {
		path := fmt.Sprintf("engines[%d]", i)
		check(path+".url", e.URL, "http://host:port, without /v1", engineURL(e.URL))
		if err := addresses.Check(e.URL); err != nil {
			d.FaultOnce(path+".url", "%v", err)
		}
		if first, again := urls[e.URL]; again && e.URL != "" {
			d.Fault(path+".url", "the same as engines[%d].url", first)
		}
		if first, again := ids[e.ID]; again && e.ID != "" {
			d.Fault(path+".id", "the same as engines[%d].id", first)
		}
		urls[e.URL], ids[e.ID] = i, i
	}
}

func hostPort(s string) bool {
	_, port, err := net.SplitHostPort(s)
	return err == nil && port != ""
}

func address(s string, schemes ...string) bool {
	u, err := url.Parse(s)
	return err == nil && slices.Contains(schemes, u.Scheme) && (u.Host != "" || u.Scheme == "unix" && u.Path != "")
}

func engineURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && address(s, "http", "https") && strings.Trim(u.Path, "/") == "" &&
		u.RawQuery == "" && u.User == nil
}

// Redacted is s as it may be shown: secrets hide themselves, and passwords in addresses are masked.
func (s Service) Redacted() Service {
	s.Redis.URL = redisserver.Redacted(s.Redis.URL)
	return s
}
