package resources

import (
	"fmt"
	"strings"
)

// once begins a query of a kind of events, each event once: delivery is at least once.
func once(dataset, kind string, fields ...string) string {
	return fmt.Sprintf("['%s']\n| where kind == '%s'\n| summarize arg_max(_time, %s) by event_id", dataset, kind,
		strings.Join(fields, ", "))
}

var phaseFields = []string{"phase_wait_s", "phase_load_s", "phase_ref_logprobs_s", "phase_train_s", "phase_publish_s",
	"phase_checkpoint_s", "phase_other_s"}

// steps begins a query of the steps of all runs, without each run's first, whose wait is the buffer's first fill.
func steps(dataset string, fields ...string) string {
	return once(dataset, "training_step", append([]string{"run_id", "step", "wall_s"}, fields...)...) +
		"\n| where step > 0"
}

// share is part of whole, and 0 of nothing.
func share(part, whole string) string {
	return fmt.Sprintf("iff(%[2]s > 0, 1.0 * %[1]s / %[2]s, 0.0)", part, whole)
}

// rates begins a query of the engines' tokens per second: the mean of each engine in a span, which add up.
func rates(dataset string) string {
	return once(dataset, "engine_sample", "engine_id", "input_tokens_per_s", "output_tokens_per_s") + `
| summarize input = avg(input_tokens_per_s), output = avg(output_tokens_per_s) by bin_auto(_time), engine_id
| summarize input_tokens_per_s = sum(input), output_tokens_per_s = sum(output) by bin_auto(_time)`
}

func overview(d string) Dashboard {
	b := newBoard("run overview", d, "Is each run going, how fast, and what is the time spent on?")
	b.number("computing", "Computing: share of the steps' time in which trainers computed",
		steps(d, "phase_load_s", "phase_ref_logprobs_s", "phase_train_s")+`
| extend useful_s = phase_load_s + phase_ref_logprobs_s + phase_train_s
| summarize useful_s = sum(useful_s), all_s = sum(wall_s)
| extend computing_share = `+share("useful_s", "all_s")+`
| project computing_share`)
	b.number("starved-share", "Starved: share of the steps' time in which trainers waited", steps(d, "phase_wait_s")+`
| summarize waited_s = sum(phase_wait_s), all_s = sum(wall_s)
| extend starved_share = `+share("waited_s", "all_s")+`
| project starved_share`)
	b.number("steps", "Steps", steps(d)+"\n| summarize steps = count()")
	b.number("step-seconds", "Step time, 95th percentile (s)", steps(d)+"\n| summarize step_s = percentile(wall_s, 95)")
	b.chart("step-time", "Step time by run (s)", steps(d)+"\n| summarize step_s = avg(wall_s) by bin_auto(_time), run_id")
	b.chart("phases", "Where a step's time goes (s)", steps(d, phaseFields...)+`
| summarize wait = avg(phase_wait_s), load = avg(phase_load_s), ref_logprobs = avg(phase_ref_logprobs_s),
    train = avg(phase_train_s), publish = avg(phase_publish_s), checkpoint = avg(phase_checkpoint_s),
    other = avg(phase_other_s) by bin_auto(_time)`)
	b.chart("tokens", "Input and output tokens per second of all engines", rates(d))
	b.chart("buffer", "Groups ready, in flight and queued", once(d, "buffer_level", "buffer_ready", "buffer_in_flight",
		"buffer_queued")+`
| summarize ready = avg(buffer_ready), in_flight = avg(buffer_in_flight), queued = avg(buffer_queued) by bin_auto(_time)`)
	b.table("runs", "Runs", once(d, "training_step", "run_id", "step", "wall_s", "policy_version")+`
| summarize last_step = max(step), steps = count(), step_s = avg(wall_s), policy_version = max(policy_version) by run_id
| order by run_id asc
| take 100`)
	b.table("verdicts", "What the diagnosis says", once(d, "diagnosed", "run_id", "step", "verdict", "cause", "text")+`
| project _time, run_id, step, verdict, cause, text
| order by _time desc
| take 100`)
	b.table("changes", "What was changed", once(d, "run_changed", "run_id", "state", "change", "reason")+`
| project _time, run_id, state, change, reason
| order by _time desc
| take 100`)
	b.table("alarms", "Alarms", once(d, "alarm_changed", "run_id", "code", "raised", "failure", "reason")+`
| project _time, run_id, code, raised, failure, reason
| order by _time desc
| take 100`)
	b.table("failures", "Games that failed", once(d, "rollout_error", "run_id", "code", "final")+`
| summarize attempts = count(), given_up = countif(final == true) by run_id, code
| top 20 by attempts`)
	return b.Dashboard
}

func starvation(d string) Dashboard {
	b := newBoard("starvation", d, "How long do trainers wait for their batches, when, and what holds the batches back?")
	b.number("waited", "Seconds trainers waited, first fills left out", steps(d, "phase_wait_s")+
		"\n| summarize waited_s = sum(phase_wait_s)")
	b.number("first-fills", "Seconds of first fills", once(d, "training_step", "step", "phase_wait_s")+`
| where step == 0
| summarize first_fill_s = sum(phase_wait_s)`)
	b.number("longest", "Longest wait of a step (s)", steps(d, "phase_wait_s")+"\n| summarize wait_s = max(phase_wait_s)")
	b.number("waiting-steps", "Share of steps that waited a second or more", steps(d, "phase_wait_s")+`
| summarize waiting = countif(phase_wait_s >= 1), steps = count()
| extend waiting_share = `+share("waiting", "steps")+`
| project waiting_share`)
	b.chart("waits", "Wait of a step by run (s)", steps(d, "phase_wait_s")+
		"\n| summarize wait_s = avg(phase_wait_s) by bin_auto(_time), run_id")
	b.chart("series", "Share of the time in which trainers waited, sampled", once(d, "buffer_level", "run_id", "starved_s",
		"window_s")+`
| summarize starved_s = sum(starved_s), window_s = sum(window_s) by bin_auto(_time)
| extend starved_share = `+share("starved_s", "window_s")+`
| project _time, starved_share`)
	b.chart("causes", "Seconds trainers waited, by what held the batch back", once(d, "buffer_level", "run_id",
		"starved_s", "starvation_cause")+`
| where starved_s > 0
| summarize starved_s = sum(starved_s) by bin_auto(_time), starvation_cause`)
	b.chart("ready", "Batches ready when a step's was claimed, and the depth", steps(d, "ready_depth", "buffer_depth")+`
| summarize ready = avg(ready_depth), depth = max(buffer_depth) by bin_auto(_time)`)
	b.chart("groups", "Where a group's time goes (s)", once(d, "group_ready", "queue_s", "model_max_s", "env_max_s",
		"dispatch_queue_max_s")+`
| summarize until_a_place = avg(queue_s), model = avg(model_max_s), environment = avg(env_max_s),
    dispatch_queue = avg(dispatch_queue_max_s) by bin_auto(_time)`)
	b.table("longest-waits", "Longest waits", steps(d, "phase_wait_s", "ready_depth")+`
| project run_id, step, phase_wait_s, wall_s, ready_depth
| top 20 by phase_wait_s`)
	b.table("throttles", "What kept runs below their depth", once(d, "buffer_level", "run_id", "throttle", "window_s")+`
| where isnotempty(throttle)
| summarize seconds = sum(window_s) by run_id, throttle
| top 20 by seconds`)
	return b.Dashboard
}

func engines(d string) Dashboard {
	b := newBoard("engines", d, "Are engines full, idle, slow or gone?")
	sample := func(fields ...string) string {
		return once(d, "engine_sample", append([]string{"engine_id"}, fields...)...)
	}
	by := func(figure string) string { return "\n| summarize " + figure + " by bin_auto(_time), engine_id" }
	b.number("count", "Engines", sample("running_requests")+"\n| summarize engines = dcount(engine_id)")
	b.number("kv", "Highest use of a KV cache", sample("kv_usage")+"\n| summarize kv_usage = max(kv_usage)")
	b.number("waiting", "Requests waiting inside engines", sample("waiting_requests")+
		"\n| summarize waiting = avg(waiting_requests)")
	b.number("prefix", "Prefix hits", sample("prefix_hit_share")+"\n| summarize prefix_hit_share = avg(prefix_hit_share)")
	b.chart("input", "Input tokens per second", sample("input_tokens_per_s")+
		by("input_tokens_per_s = avg(input_tokens_per_s)"))
	b.chart("output", "Output tokens per second", sample("output_tokens_per_s")+
		by("output_tokens_per_s = avg(output_tokens_per_s)"))
	b.chart("running", "Requests an engine runs", sample("running_requests")+by("running = avg(running_requests)"))
	b.chart("queue", "Seconds a request queues inside an engine", sample("queue_mean_s")+by("queue_s = avg(queue_mean_s)"))
	b.chart("by-run", "Output tokens by run, in each span of time", once(d, "token_rates", "run_id", "output_tokens")+`
| summarize output_tokens = sum(output_tokens) by bin_auto(_time), run_id`)
	b.table("by-version", "Tokens by run, policy version and adapter", once(d, "token_rates", "run_id",
		"policy_version", "adapter", "input_tokens", "output_tokens", "cached_tokens", "requests")+`
| summarize input_tokens = sum(input_tokens), output_tokens = sum(output_tokens), cached_tokens = sum(cached_tokens),
    requests = sum(requests) by run_id, policy_version, adapter
| top 50 by policy_version`)
	b.table("load", "Tokens per second against load: flat at rising load means full",
		sample("running_requests", "input_tokens_per_s", "output_tokens_per_s")+`
| extend running = bin(running_requests, 8)
| summarize samples = count(), input_tokens_per_s = avg(input_tokens_per_s),
    output_tokens_per_s = avg(output_tokens_per_s) by engine_id, running
| order by engine_id asc, running asc
| take 200`)
	b.table("adapters", "Loads of adapters", once(d, "adapter_loaded", "engine_id", "adapter_load_s")+`
| summarize loads = count(), mean_s = avg(adapter_load_s), longest_s = max(adapter_load_s) by engine_id
| top 50 by longest_s`)
	b.table("events", "Engines that came, went or were lost", once(d, "engine_changed", "engine_id", "state", "reason")+`
| project _time, engine_id, state, reason
| order by _time desc
| take 100`)
	b.table("slow", "Engines that lag", once(d, "engine_paced", "engine_id", "lagging", "reason")+`
| project _time, engine_id, lagging, reason
| order by _time desc
| take 100`)
	return b.Dashboard
}

func learning(d string) Dashboard {
	b := newBoard("learning", d, "Is what is trained on fresh, and does it teach anything?")
	b.number("staleness", "Mean staleness (versions)", steps(d, "staleness_mean")+
		"\n| summarize staleness = avg(staleness_mean)")
	b.number("zero-variance", "Share of groups without reward variance", steps(d, "groups", "zero_variance_groups")+`
| summarize flat = sum(zero_variance_groups), groups = sum(groups)
| extend zero_variance_share = `+share("flat", "groups")+`
| project zero_variance_share`)
	b.number("dropped", "Groups dropped", once(d, "group_dropped", "code")+"\n| summarize groups = count()")
	b.number("trajectories", "Trajectories trained on", steps(d, "trajectories")+
		"\n| summarize trajectories = sum(trajectories)")
	b.chart("staleness-over-time", "Staleness (versions): in flight, and in the buffer",
		steps(d, "staleness_in_flight_mean", "staleness_in_buffer_mean", "staleness_max")+`
| summarize in_flight = avg(staleness_in_flight_mean), in_buffer = avg(staleness_in_buffer_mean),
    most = max(staleness_max) by bin_auto(_time)`)
	b.chart("variance", "Groups of a batch without reward variance", steps(d, "zero_variance_groups")+
		"\n| summarize flat = avg(zero_variance_groups) by bin_auto(_time), run_id")
	b.chart("versions", "Policy version by run", once(d, "policy_published", "run_id", "policy_version")+
		"\n| summarize policy_version = max(policy_version) by bin_auto(_time), run_id")
	b.chart("lengths", "Phases of a game", once(d, "rollout_complete", "run_id", "phases")+
		"\n| summarize phases = avg(phases) by bin_auto(_time), run_id")
	b.table("drops", "Dropped groups by reason", once(d, "group_dropped", "run_id", "code")+`
| summarize groups = count() by run_id, code
| top 20 by groups`)
	b.table("publications", "Publications", once(d, "policy_published", "run_id", "policy_version", "state",
		"adapter_load_max_s")+`
| project _time, run_id, policy_version, state, adapter_load_max_s
| order by _time desc
| take 100`)
	return b.Dashboard
}
