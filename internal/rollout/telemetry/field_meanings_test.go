package telemetry

// kindMeanings says of each kind when such an event comes.
var kindMeanings = map[string]string{
	"adapter_changed": "an adapter's files are not those that were published, or are again",
	"adapter_loaded":  "an engine loaded an adapter, or failed to",
	"alarm_changed":   "something keeps a run's games from being played, or no longer does",
	"audit":           "somebody asked for a change over the API",
	"batch_claimed":   "a step's batch was formed",
	"breaker_changed": "a worker stopped giving an engine requests, or does so again",
	"buffer_level": "the buffer and the trainer's starvation, every 2 s of a run; one that has seconds of a wait " +
		"is a fact",
	"diagnosed":               "the diagnosis of a run says something else than before",
	"dispatch_sample":         "a worker's dispatcher, every 2 s, for each run and for the whole",
	"engine_changed":          "an engine came, went, or was lost",
	"engine_paced":            "an engine began or ceased to lag behind the fleet",
	"engine_sample":           "an engine's load and throughput by its own counters, every second",
	"fleet_measured":          "what a decision of scaling did to the steps",
	"fleet_scaled":            "scaling wants another number of engines",
	"provider_changed":        "the provider of engines fails, or works again",
	"group_dropped":           "a group will not be trained on",
	"group_ready":             "a group was committed to the buffer",
	"policy_published":        "a policy version was published, serves, or was rejected",
	"rollout_complete":        "a game ended",
	"rollout_error":           "an attempt at a game failed",
	"run_changed":             "a run was started, changed or ended",
	"reward_variance_changed": "most groups have no reward variance any more, or have it again",
	"sink_changed":            "the delivery to a sink was degraded, or is well again",
	"token_rates":             "tokens of one engine, run, policy version and adapter in a window; they add up",
	"training_step":           "a step was completed: its whole record, summed up",
}

// fieldMeanings says what each field of a flat row is. Seconds end in _s.
var fieldMeanings = map[string]string{
	"_time": "when it happened, not when it was delivered", "kind": "the kind of event",
	"event_id": "the event's name: a fact that comes twice has the same", "run_id": "the run; none: of the fleet",
	"engine_id": "the engine", "worker": "the worker process", "step": "the trainer's step, from 0",
	"generation": "trainer generation", "policy_version": "publications so far; 0 is the base model",
	"group_id": "the group's number in its run", "sample": "the game's number in its group",

	"adapter": "the adapter's name, or base model", "adapter_load_s": "how long the load took",
	"adapter_load_max_s": "the longest load of a publication", "path": "where the adapter's files are",
	"digest": "of the adapter's files", "engines": "engines that serve it",

	"wall_s": "the step, from its first claim to its record", "starved_s": "the trainer waited, first fill left out",
	"prefill_s": "the trainer waited for the first batch", "starvation_cause": "what held the batch back",
	"made_up": "the sampler was away: the row makes up for it", "phase_wait_s": "waiting for the batch",
	"phase_load_s": "loading the batch", "phase_ref_logprobs_s": "reference log-probabilities",
	"phase_train_s": "optimizer and gradients", "phase_publish_s": "publishing the weights",
	"phase_checkpoint_s": "the trainer's checkpoint", "phase_other_s": "own phases, and what no phase accounts for",
	"own_phases_s": "phases that the trainer named itself", "metrics": "what the trainer reported, such as its loss",
	"ready_depth": "batches ready at the claim", "buffer_depth": "batches that may be outstanding",
	"groups_per_step": "groups of a batch", "groups": "groups of this batch", "trajectories": "trajectories in it",
	"reward_mean":              "mean reward of the step's games",
	"zero_variance_groups":     "zero-variance groups of the batch",
	"staleness_min":            "least staleness of the batch",
	"staleness_max":            "greatest staleness of the batch",
	"staleness_mean":           "mean staleness of the batch, in versions",
	"staleness_in_flight_mean": "of it, while games were played",
	"staleness_in_buffer_mean": "of it, while groups lay ready",
	"fleet_window_s":           "the window of the fleet_ fields",
	"fleet_engines":            "engines that were ready, mean",
	"fleet_busy_share":         "share of the time in which engines ran anything",
	"fleet_slot_share":         "share of the engines' slots in use",
	"fleet_in_flight":          "requests under way, mean",
	"fleet_queued_requests":    "requests waiting in the dispatchers, mean",

	"buffer_queued": "groups launched, not begun", "buffer_in_flight": "groups being played",
	"buffer_ready": "groups complete, not claimed", "buffer_claimed": "groups given to the trainer",
	"buffer_completed": "groups trained on so far", "buffer_dropped": "groups dropped so far",
	"buffer_bytes": "bytes of the groups in Redis", "buffer_target": "groups the run wants outstanding",
	"throttle":                    "what keeps the run below its depth",
	"reward_variance_groups":      "groups that reward variance was looked for in",
	"reward_variance_zero_groups": "of them, without", "collapsed": "most groups have none", "alarms": "alarms that stand",

	"requests": "requests to engines", "input_tokens": "prompt tokens", "output_tokens": "generated tokens",
	"cached_tokens": "prompt tokens found in a prefix cache", "repeated_tokens": "prompt tokens sent before in the game",
	"exec_s": "seconds in engines, summed", "dispatch_queue_s": "seconds in the dispatch queue, summed",
	"input_tokens_per_s": "prompt tokens per second of wall time", "output_tokens_per_s": "generated, likewise",
	"newest_input_tokens_per_s":  "of the newest version",
	"newest_output_tokens_per_s": "of the newest version",
	"policy_versions":            "versions that were sampled from in the window",
	"window_s":                   "the window that rates and sums are of",

	"queue_s": "from launch to the first request, or in the queue", "duration_s": "from start to end",
	"episodes": "games of the group", "episodes_failed": "games that were given up", "episode_max_s": "its longest game",
	"model_max_s": "most seconds of a game in engines", "env_max_s": "most seconds of a game in the environment",
	"dispatch_queue_max_s": "most seconds of a game in the dispatch queue", "model_s": "seconds in engines",
	"env_s": "seconds in the environment", "phases": "rounds of orders that were played",
	"phases_mean": "rounds of orders, mean of the games", "zero_variance": "the group has no reward variance",
	"rewards":  "each agent's reward",
	"attempts": "attempts that it took", "attempt": "number of the attempt", "final": "no further attempt",
	"counts": "the environment's own counts", "code": "why, from a small set", "failure": "what went wrong",

	"running_requests": "requests that the engine runs", "waiting_requests": "requests that wait inside it",
	"kv_usage": "share of its KV cache in use", "prefix_hit_share": "prompt tokens found in its prefix cache",
	"preemptions": "requests preempted in the window", "queue_mean_s": "a request's wait in the dispatch queues, mean",
	"usage_input_error":  "answers against the engine's counter",
	"usage_output_error": "the same of generated tokens",
	"usage_window_s":     "the window of the two",
	"queued_requests":    "requests in the worker's dispatcher", "in_flight_requests": "requests under way",
	"rejected_requests": "requests that were refused", "lagging": "it lags behind the fleet",
	"open": "no requests for now", "state": "the new state", "reason": "why", "advice": "what to do",
	"change": "what was done", "raised": "the alarm stands; else it is over", "sink": "where events are delivered to",

	"who": "the token's name", "role": "the token's role", "from": "the client's address", "what": "the operation",
	"target": "what it was about", "status": "of the answer: 400 and above is a refusal", "request_id": "of the request",
	"before": "settings before", "after": "settings after",

	"decision": "number of the decision, from 1", "from_engines": "engines wanted before", "to_engines": "wanted now",
	"cost_usd": "what the fleet has cost so far, in $; 0: no price is known", "effects": "what becomes of the runs' steps",
	"before_step_s":    "a step of the run of the highest priority, before",
	"predicted_step_s": "what it is predicted to take", "measured_step_s": "what it took",
	"provider": "what gets engines", "in_trouble": "it does not do what it is asked for",

	"verdict": "the diagnosis in a word", "was": "the verdict before", "cause": "of the first finding",
	"since_step": "since when", "goodput": "share of the time that was useful", "step_s": "what a step takes now",
	"text": "the finding in words",
}

// Meaning says what a field is; empty for one that nobody described.
func (f Field) Meaning() string { return fieldMeanings[f.Name] }

// Meaning says when an event of the kind comes; empty for one that nobody described.
func (k KindFields) Meaning() string { return kindMeanings[k.Kind] }
