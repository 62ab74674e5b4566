package aplquery

import "github.com/millrace/millrace/internal/diagnosis"

// byCause says for each cause which rows speak for it.
var byCause = map[diagnosis.CauseName]func(Scope) []Query{
	diagnosis.CauseThroughput: func(s Scope) []Query { return []Query{enginesByLoad(s), engines(s), Throughput(s)} },
	diagnosis.CauseLatency:    func(s Scope) []Query { return []Query{groups(s), enginesByLoad(s)} },
	diagnosis.CauseWorkers:    func(s Scope) []Query { return []Query{groupStarts(s), dispatchers(s)} },
	diagnosis.CauseOwnLimit:   func(s Scope) []Query { return []Query{dispatchers(s), engines(s)} },
	diagnosis.CauseStarvation: func(s Scope) []Query { return []Query{Starvation(s), Steps(s), buffer(s)} },
	diagnosis.CauseHandover:   func(s Scope) []Query { return []Query{claims(s), Steps(s)} },

	diagnosis.CauseTrainer:     func(s Scope) []Query { return []Query{Steps(s)} },
	diagnosis.CauseRefLogprobs: func(s Scope) []Query { return []Query{slowestBy(s, "phase_ref_logprobs_s")} },
	diagnosis.CauseCheckpoint:  func(s Scope) []Query { return []Query{slowestBy(s, "phase_checkpoint_s")} },
	diagnosis.CausePublish: func(s Scope) []Query {
		return []Query{slowestBy(s, "phase_publish_s"), publications(s)}
	},
	diagnosis.CauseRarePhase:     func(s Scope) []Query { return []Query{slowestBy(s, "phase_other_s")} },
	diagnosis.CausePeriodicPhase: func(s Scope) []Query { return []Query{slowestBy(s, "phase_other_s"), Steps(s)} },
	diagnosis.CauseRestart:       func(s Scope) []Query { return []Query{runChanges(s), Steps(s)} },
	diagnosis.CausePaused:        func(s Scope) []Query { return []Query{runChanges(s), engineChanges(s), Steps(s)} },
	diagnosis.CauseBetweenSteps:  func(s Scope) []Query { return []Query{gaps(s)} },
	diagnosis.CauseSingleStep:    func(s Scope) []Query { return []Query{slowestBy(s, "wall_s")} },

	diagnosis.CauseStraggler:         func(s Scope) []Query { return []Query{stragglers(s), groups(s)} },
	diagnosis.CauseLongerGames:       func(s Scope) []Query { return []Query{work(s)} },
	diagnosis.CauseLongerCompletions: func(s Scope) []Query { return []Query{work(s)} },
	diagnosis.CauseLongerPrompts:     func(s Scope) []Query { return []Query{work(s)} },
	diagnosis.CauseMoreGames:         func(s Scope) []Query { return []Query{drops(s), work(s)} },
	diagnosis.CauseRefInRollouts:     func(s Scope) []Query { return []Query{work(s), Steps(s)} },
	diagnosis.CauseLowerPrefixHits:   func(s Scope) []Query { return []Query{engines(s), work(s)} },
	diagnosis.CauseEnvironment:       func(s Scope) []Query { return []Query{environment(s)} },

	diagnosis.CauseAdapterLoad: func(s Scope) []Query { return []Query{adapterLoads(s), publications(s)} },
	diagnosis.CauseEngineLost:  func(s Scope) []Query { return []Query{engineChanges(s), engines(s)} },
	diagnosis.CauseScaleDown:   func(s Scope) []Query { return []Query{engineChanges(s), engines(s)} },
	diagnosis.CauseColdEngines: func(s Scope) []Query { return []Query{engineChanges(s), engines(s)} },
	diagnosis.CauseEngineBack:  func(s Scope) []Query { return []Query{engineChanges(s), engines(s)} },
	diagnosis.CauseEngineSlow:  func(s Scope) []Query { return []Query{engines(s), paces(s), enginesByLoad(s)} },
	diagnosis.CauseKVLimited:   func(s Scope) []Query { return []Query{kvCaches(s), enginesByLoad(s)} },
	diagnosis.CauseOtherWork:   func(s Scope) []Query { return []Query{shareOfEngines(s), engines(s)} },

	diagnosis.CausePrefill:          func(s Scope) []Query { return []Query{depth(s), Steps(s)} },
	diagnosis.CauseThrottle:         func(s Scope) []Query { return []Query{throttles(s), buffer(s)} },
	diagnosis.CauseStaleWait:        func(s Scope) []Query { return []Query{claims(s), buffer(s)} },
	diagnosis.CauseDrops:            func(s Scope) []Query { return []Query{drops(s)} },
	diagnosis.CauseStaleDrops:       func(s Scope) []Query { return []Query{drops(s), claims(s)} },
	diagnosis.CauseNoRewardVariance: func(s Scope) []Query { return []Query{rewardVariance(s)} },
	diagnosis.CauseConfig:           func(s Scope) []Query { return []Query{runChanges(s), Steps(s)} },

	diagnosis.CauseNoWorker:  func(s Scope) []Query { return []Query{alarms(s)} },
	diagnosis.CauseNoEngine:  func(s Scope) []Query { return []Query{alarms(s), engineChanges(s)} },
	diagnosis.CauseModel:     func(s Scope) []Query { return []Query{alarms(s), publications(s)} },
	diagnosis.CauseGamesFail: func(s Scope) []Query { return []Query{failures(s), alarms(s)} },
}

// enginesByLoad shows whether more requests at once give more tokens per second: flat means that an engine is full.
func enginesByLoad(s Scope) Query {
	return Query{"Tokens per second of an engine against the requests it runs: flat at rising load means capacity",
		s.once("engine_sample", "engine_id", "running_requests", "waiting_requests", "input_tokens_per_s",
			"output_tokens_per_s") + `
| extend running = bin(running_requests, 8)
| summarize samples = count(), input_tokens_per_s = avg(input_tokens_per_s),
    output_tokens_per_s = avg(output_tokens_per_s), waiting = avg(waiting_requests) by engine_id, running
| order by engine_id asc, running asc`}
}

// engines compares the engines with one another.
func engines(s Scope) Query {
	return Query{"Each engine: load, tokens per second, and how long requests queue inside it",
		s.once("engine_sample", "engine_id", "running_requests", "waiting_requests", "kv_usage", "input_tokens_per_s",
			"output_tokens_per_s", "prefix_hit_share", "queue_mean_s") + `
| summarize samples = count(), running = avg(running_requests), waiting = avg(waiting_requests),
    kv_usage_max = max(kv_usage), input_tokens_per_s = avg(input_tokens_per_s),
    output_tokens_per_s = avg(output_tokens_per_s), prefix_hit_share = avg(prefix_hit_share),
    queue_mean_s = avg(queue_mean_s) by engine_id
| extend output_tokens_per_s_per_request = iff(running > 0, 1.0 * output_tokens_per_s / running, 0.0)
| order by output_tokens_per_s_per_request asc`}
}

// kvCaches shows engines that keep requests waiting because their KV caches are full, or preempt some.
func kvCaches(s Scope) Query {
	return Query{"Each engine's KV cache: its share in use, requests that wait inside the engine, and preemptions",
		s.once("engine_sample", "engine_id", "running_requests", "waiting_requests", "kv_usage", "preemptions") + `
| summarize kv_usage = avg(kv_usage), kv_usage_max = max(kv_usage), running = avg(running_requests),
    waiting = avg(waiting_requests), preemptions = sum(preemptions) by engine_id
| order by kv_usage desc`}
}

func engineChanges(s Scope) Query {
	return Query{"Engines that came, went or were lost, and when",
		s.once("engine_changed", "engine_id", "state", "reason") + `
| project _time, engine_id, state, reason
| order by _time asc`}
}

func paces(s Scope) Query {
	return Query{"Engines that began or ceased to lag behind the fleet",
		s.once("engine_paced", "engine_id", "lagging", "reason") + `
| project _time, engine_id, lagging, reason
| order by _time asc`}
}

// shareOfEngines compares what the engines did with what this run had of it.
func shareOfEngines(s Scope) Query {
	return Query{"Tokens per second that this run's requests had, over time; compare with those of the engines",
		s.once("dispatch_sample", "window_s", "input_tokens_per_s", "output_tokens_per_s") + `
| summarize input_tokens_per_s = avg(input_tokens_per_s), output_tokens_per_s = avg(output_tokens_per_s)
    by bin_auto(_time)`}
}

func dispatchers(s Scope) Query {
	return Query{"Requests that wait in the dispatchers, and those under way",
		s.once("dispatch_sample", "queued_requests", "in_flight_requests", "rejected_requests") + `
| summarize queued = avg(queued_requests), in_flight = avg(in_flight_requests), in_flight_max = max(in_flight_requests),
    rejected = sum(rejected_requests) by bin_auto(_time)`}
}

// groups shows where a group's time goes: waiting for a place, in the model, in the environment.
func groups(s Scope) Query {
	return Query{"Groups: how long until a place, and how long their games took",
		s.once("group_ready", "group_id", "queue_s", "duration_s", "episode_max_s", "model_max_s", "env_max_s",
			"dispatch_queue_max_s") + `
| summarize groups = count(), queue_s = avg(queue_s), duration_s = avg(duration_s), model_s = avg(model_max_s),
    env_s = avg(env_max_s), dispatch_queue_s = avg(dispatch_queue_max_s) by bin_auto(_time)`}
}

func groupStarts(s Scope) Query {
	return Query{"Seconds from a group's launch to its first game: workers without a free slot show here",
		s.once("group_ready", "group_id", "queue_s", "duration_s") + `
| summarize groups = count(), queue_s = avg(queue_s), queue_max_s = max(queue_s), duration_s = avg(duration_s)
    by bin_auto(_time)`}
}

// stragglers are groups that one slow game held back.
func stragglers(s Scope) Query {
	return Query{"Groups whose slowest game took longest, compared with the mean of their games",
		s.once("rollout_complete", "group_id", "sample", "duration_s", "phases", "output_tokens") + `
| summarize games = count(), slowest_s = max(duration_s), mean_s = avg(duration_s) by group_id
| extend ratio = iff(mean_s > 0, 1.0 * slowest_s / mean_s, 0.0)
| top 20 by ratio desc`}
}

// work is what a game costs, in its factors: requests per game, tokens per request, seconds per token.
func work(s Scope) Query {
	return Query{"Work per game over time: requests per game, tokens per request, seconds per output token",
		s.once("rollout_complete", "requests", "input_tokens", "output_tokens", "cached_tokens", "exec_s", "phases") + `
| summarize games = count(), requests = sum(requests), input_tokens = sum(input_tokens),
    output_tokens = sum(output_tokens), cached_tokens = sum(cached_tokens), exec_s = sum(exec_s), phases = avg(phases)
    by bin_auto(_time)
| extend requests_per_game = iff(games > 0, 1.0 * requests / games, 0.0),
    input_tokens_per_request = iff(requests > 0, 1.0 * input_tokens / requests, 0.0),
    output_tokens_per_request = iff(requests > 0, 1.0 * output_tokens / requests, 0.0),
    exec_s_per_output_token = iff(output_tokens > 0, 1.0 * exec_s / output_tokens, 0.0),
    request_seconds_per_game = iff(games > 0, 1.0 * exec_s / games, 0.0)`}
}

func environment(s Scope) Query {
	return Query{"Seconds of a game in the environment and in the model, over time",
		s.once("rollout_complete", "duration_s", "env_s", "model_s", "phases") + `
| summarize games = count(), env_s = avg(env_s), model_s = avg(model_s), duration_s = avg(duration_s) by bin_auto(_time)
| extend env_share = iff(duration_s > 0, 1.0 * env_s / duration_s, 0.0)`}
}

func adapterLoads(s Scope) Query {
	return Query{"Loads of adapters: how often, and how long they took, by engine",
		s.once("adapter_loaded", "engine_id", "adapter", "policy_version", "adapter_load_s") + `
| summarize loads = count(), load_s = sum(adapter_load_s), load_max_s = max(adapter_load_s) by engine_id
| order by load_s desc`}
}

func publications(s Scope) Query {
	return Query{"Publications of policy versions, and the longest load of each",
		s.once("policy_published", "policy_version", "state", "engines", "adapter_load_max_s") + `
| project _time, policy_version, state, engines, adapter_load_max_s
| order by _time asc`}
}

// slowestBy has the steps in which a phase, or the whole step, took longest.
func slowestBy(s Scope, field string) Query {
	return Query{"Steps with the longest " + field, s.once("training_step", stepFields...) + `
| where step > 0
| project step, wall_s, phase_wait_s, phase_load_s, phase_ref_logprobs_s, phase_train_s, phase_publish_s,
    phase_checkpoint_s, phase_other_s
| top 20 by ` + field + ` desc`}
}

// gaps shows the time between steps: from one record's arrival to the next, less the step itself.
func gaps(s Scope) Query {
	return Query{"When each step's record came: what lies between two and is no step is time without one",
		s.once("training_step", "step", "wall_s") + `
| project step, _time, wall_s
| order by step asc`}
}

func depth(s Scope) Query {
	return Query{"Batches that were ready when each step's was claimed",
		s.once("training_step", "step", "ready_depth", "buffer_depth", "phase_wait_s", "wall_s") + `
| project step, ready_depth, buffer_depth, phase_wait_s, wall_s
| order by step asc`}
}

func claims(s Scope) Query {
	return Query{"Claims: seconds from first asked to formed, and how stale the batches were",
		s.once("batch_claimed", "step", "starved_s", "staleness_in_flight_mean", "staleness_in_buffer_mean",
			"buffer_ready") + `
| project _time, step, starved_s, buffer_ready, staleness_in_flight_mean, staleness_in_buffer_mean
| order by step asc`}
}

func buffer(s Scope) Query {
	return Query{"The buffer over time: groups ready, in flight and queued, and the bound",
		s.once("buffer_level", "buffer_ready", "buffer_in_flight", "buffer_queued", "buffer_target") + `
| summarize ready = avg(buffer_ready), in_flight = avg(buffer_in_flight), queued = avg(buffer_queued),
    target = max(buffer_target) by bin_auto(_time)`}
}

func throttles(s Scope) Query {
	return Query{"What kept the run below its depth, and for how long",
		s.once("buffer_level", "throttle", "window_s") + `
| summarize seconds = sum(window_s), samples = count() by throttle
| order by seconds desc`}
}

func drops(s Scope) Query {
	return Query{"Groups that were dropped, by reason",
		s.once("group_dropped", "group_id", "code") + `
| summarize groups = count() by code
| order by groups desc`}
}

func rewardVariance(s Scope) Query {
	return Query{"Zero-variance groups of each batch: without variance nothing is learnt",
		s.once("training_step", "step", "groups", "flat_groups") + `
| extend zero_variance_share = iff(groups > 0, 1.0 * flat_groups / groups, 0.0)
| project step, groups, flat_groups, zero_variance_share
| order by step asc`}
}

func runChanges(s Scope) Query {
	return Query{"What was changed, and when", s.once("run_changed", "state", "change", "reason") + `
| project _time, state, change, reason
| order by _time asc`}
}

func alarms(s Scope) Query {
	return Query{"Alarms that were raised and cleared", s.once("alarm_changed", "code", "raised", "failure", "reason") + `
| project _time, code, raised, failure, reason
| order by _time asc`}
}

func failures(s Scope) Query {
	return Query{"Games that failed, by code", s.once("rollout_error", "code", "failure", "final") + `
| summarize attempts = count(), given_up = countif(final == true) by code
| order by attempts desc`}
}
