package aplquery

import "github.com/millrace/millrace/internal/diagnosis"

// query is one question to Axiom: the events of a kind with some fields, and what is made of them.
type query struct {
	shows  string
	kind   string
	fields []string
	rest   string
	causes []diagnosis.CauseName // that it speaks for
}

// queries are all of them; the first is for what no other speaks for.
var queries = []query{{
	shows: "Steps and their phases", kind: "training_step",
	fields: []string{"step", "wall_s", "starved_s", "ready_depth", "phase_wait_s", "phase_load_s", "phase_ref_logprobs_s",
		"phase_train_s", "phase_publish_s", "phase_checkpoint_s", "phase_other_s", "groups", "zero_variance_groups"},
	rest: "| order by step asc",
	causes: []diagnosis.CauseName{
		diagnosis.CauseTrainer, diagnosis.CauseRefLogprobs, diagnosis.CauseCheckpoint, diagnosis.CausePublish,
		diagnosis.CauseRarePhase, diagnosis.CausePeriodicPhase, diagnosis.CauseBetweenSteps, diagnosis.CauseSingleStep,
		diagnosis.CauseStarvation, diagnosis.CauseNoRewardVariance,
	},
}, {
	shows: "Tokens per second of an engine against the requests it runs: flat at rising load means capacity",
	kind:  "engine_sample",
	fields: []string{"engine_id", "running_requests", "waiting_requests", "kv_usage", "preemptions", "prefix_hit_share",
		"input_tokens_per_s", "output_tokens_per_s"},
	rest: `| extend running = bin(running_requests, 8)
| summarize samples = count(), input_tokens_per_s = avg(input_tokens_per_s),
    output_tokens_per_s = avg(output_tokens_per_s), waiting = avg(waiting_requests), kv_usage_max = max(kv_usage),
    preemptions = sum(preemptions), prefix_hit_share = avg(prefix_hit_share) by engine_id, running
| order by engine_id asc, running asc`,
	causes: []diagnosis.CauseName{
		diagnosis.CauseThroughput, diagnosis.CauseEngineSlow, diagnosis.CauseKVLimited, diagnosis.CauseLowerPrefixHits,
	},
}, {
	shows: "Engines that came, went or were lost, and when", kind: "engine_changed",
	fields: []string{"engine_id", "state", "reason"}, rest: "| order by _time asc",
	causes: []diagnosis.CauseName{
		diagnosis.CauseEngineLost, diagnosis.CauseEngineBack, diagnosis.CauseScaleDown, diagnosis.CauseColdEngines,
		diagnosis.CauseNoEngine,
	},
}, {
	shows: "Requests and tokens per second of this run, over time", kind: "dispatch_sample",
	fields: []string{"queued_requests", "in_flight_requests", "input_tokens_per_s", "output_tokens_per_s"},
	rest: `| summarize queued = avg(queued_requests), in_flight = avg(in_flight_requests),
    input_tokens_per_s = avg(input_tokens_per_s), output_tokens_per_s = avg(output_tokens_per_s) by bin_auto(_time)`,
	causes: []diagnosis.CauseName{diagnosis.CauseOwnLimit, diagnosis.CauseOtherWork},
}, {
	shows: "Groups: how long until a place, and how long their games took", kind: "group_ready",
	fields: []string{"group_id", "queue_s", "duration_s", "episode_max_s", "model_max_s", "env_max_s",
		"dispatch_queue_max_s"},
	rest: `| summarize groups = count(), queue_s = avg(queue_s), queue_max_s = max(queue_s), duration_s = avg(duration_s),
    longest_s = max(duration_s), model_s = avg(model_max_s), env_s = avg(env_max_s),
    dispatch_queue_s = avg(dispatch_queue_max_s) by bin_auto(_time)`,
	causes: []diagnosis.CauseName{
		diagnosis.CauseLatency, diagnosis.CauseWorkers, diagnosis.CauseStraggler, diagnosis.CauseEnvironment,
	},
}, {
	shows: "Work per game over time: requests, tokens and seconds at engines", kind: "rollout_complete",
	fields: []string{"requests", "input_tokens", "output_tokens", "cached_tokens", "exec_s", "phases"},
	rest: `| summarize games = count(), phases = avg(phases), requests = avg(requests), input_tokens = avg(input_tokens),
    cached_tokens = avg(cached_tokens), output_tokens = avg(output_tokens), exec_s = avg(exec_s) by bin_auto(_time)`,
	causes: []diagnosis.CauseName{
		diagnosis.CauseLongerGames, diagnosis.CauseLongerCompletions, diagnosis.CauseLongerPrompts,
		diagnosis.CauseRefInRollouts,
	},
}, {
	shows: "Loads of adapters: how often, and how long they took, by engine", kind: "adapter_loaded",
	fields: []string{"engine_id", "adapter", "policy_version", "adapter_load_s"},
	rest: `| summarize loads = count(), load_s = sum(adapter_load_s), load_max_s = max(adapter_load_s) by engine_id
| order by load_s desc`,
	causes: []diagnosis.CauseName{diagnosis.CauseAdapterLoad, diagnosis.CauseModel},
}, {
	shows: "Claims: seconds from first asked to formed, and how stale the batches were", kind: "batch_claimed",
	fields: []string{"step", "starved_s", "staleness_in_flight_mean", "staleness_in_buffer_mean", "buffer_ready"},
	rest:   "| order by step asc",
	causes: []diagnosis.CauseName{diagnosis.CauseHandover, diagnosis.CauseStaleWait},
}, {
	shows: "What kept the run below its depth, and for how long", kind: "buffer_level",
	fields: []string{"throttle", "window_s", "buffer_ready", "buffer_in_flight", "buffer_queued", "buffer_target"},
	rest: `| summarize seconds = sum(window_s), ready = avg(buffer_ready), in_flight = avg(buffer_in_flight),
    queued = avg(buffer_queued), target = max(buffer_target) by throttle
| order by seconds desc`,
	causes: []diagnosis.CauseName{diagnosis.CauseThrottle},
}, {
	shows: "Groups that were dropped, by reason", kind: "group_dropped", fields: []string{"group_id", "code"},
	rest: `| summarize groups = count() by code
| order by groups desc`,
	causes: []diagnosis.CauseName{
		diagnosis.CauseDrops, diagnosis.CauseStaleDrops, diagnosis.CauseMoreGames,
	},
}, {
	shows: "What was changed, and when", kind: "run_changed", fields: []string{"state", "change", "reason"},
	rest:   "| order by _time asc",
	causes: []diagnosis.CauseName{diagnosis.CauseConfig, diagnosis.CauseRestart, diagnosis.CausePaused},
}, {
	shows: "Games that failed, by code", kind: "rollout_error", fields: []string{"code", "failure", "final"},
	rest: `| summarize attempts = count(), given_up = countif(final == true) by code
| order by attempts desc`,
	causes: []diagnosis.CauseName{diagnosis.CauseGamesFail},
}, {
	shows: "Alarms that were raised and cleared", kind: "alarm_changed",
	fields: []string{"code", "raised", "failure", "reason"}, rest: "| order by _time asc",
	causes: []diagnosis.CauseName{diagnosis.CauseNoWorker},
}}
