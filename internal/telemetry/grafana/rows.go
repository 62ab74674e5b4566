package grafana

import "fmt"

// Units, as Grafana calls them.
const (
	seconds = "s"
	share   = "percentunit"
	count   = "short"
	bytesOf = "bytes"
	perSec  = "cps" // tokens, events and requests alike
)

// Selectors of what is chosen at the top.
const (
	ofRun    = `{run=~"$run"}`
	ofEngine = `{engine=~"$engine"}`
	ofBoth   = `{run=~"$run",engine=~"$engine"}`
)

// rows is the dashboard, the questions of who is on call first.
func rows() []row {
	return []row{
		{"Health at a glance", health()}, {"Step time by phase", stepTime()}, {"Starvation and buffer", starvation()},
		{"Tokens per second", tokens()}, {"Staleness and what is learned", learning()}, {"Failures", failures()},
		{"Scaling", scaling()}, {"The service: Redis, spools, sinks, workers", service()},
	}
}

// number is a panel with the latest figure, chart one with lines.
func number(title, means, unit string, width int, asks ...query) panel {
	return panel{title: title, means: means, kind: stat, unit: unit, width: width, height: 4, asks: asks}
}

func chart(title, means, unit string, width int, asks ...query) panel {
	return panel{title: title, means: means, kind: lines, unit: unit, width: width, height: 8, asks: asks}
}

func parts(title, means, unit string, width int, asks ...query) panel {
	p := chart(title, means, unit, width, asks...)
	p.stack = true
	return p
}

// perEngine is a line for each engine, however many there are.
func perEngine(title, means, unit, metric string) panel {
	return panel{title: title, means: means, kind: rowsOfTime, unit: unit, width: 12, height: 8,
		asks: []query{{fmt.Sprintf("max by (engine) (%s%s)", metric, ofEngine), "{{engine}}"}}}
}

// rate is what counters grow by in a second, added up by some labels.
func rate(by, series string) string {
	return fmt.Sprintf("sum by (%s) (rate(%s[$__rate_interval]))", by, series)
}

// mean is the mean of a histogram's measurements.
func mean(by, histogram, selector string) string {
	return fmt.Sprintf("%s / (%s > 0)", rate(by, histogram+"_sum"+selector), rate(by, histogram+"_count"+selector))
}

// quantile is that of a histogram's measurements.
func quantile(q float64, by, histogram, selector string) string {
	return fmt.Sprintf("histogram_quantile(%v, %s)", q, rate("le, "+by, histogram+"_bucket"+selector))
}

func health() []panel {
	waiting := number("Waited, of each of the last 3 steps", "Share of the time that the trainer waited, in the least of "+
		"them. Above a fifth: millrace diagnose RUN.", share, 4,
		query{`max by (run) (millrace_step_wait_ratio{run=~"$run",steps="3"})`, "{{run}}"})
	waiting.reds = 0.2
	alarms := number("Alarms", "What keeps a run's games from being played: millrace run show RUN.", count, 4,
		query{"sum by (run, code) (millrace_alarm" + ofRun + ") > 0", "{{run}}: {{code}}"})
	alarms.reds = 1
	goodput := number("Goodput", "Share of the runs' time that was useful compute, by the ledger of millrace diagnose.",
		share, 4, query{"max by (run) (millrace_goodput_ratio" + ofRun + ")", "{{run}}"})
	up := number("Engines ready", "Of those that were seen. Others: millrace engine list.", count, 4,
		query{"sum(max by (engine) (millrace_engine_up" + ofEngine + "))", "ready"})
	up.greens = 1
	return []panel{
		number("State", "Runs that are not over.", count, 4,
			query{"max by (run, state) (millrace_run_state" + ofRun + ") == 1", "{{run}}: {{state}}"}),
		number("Next step", "First step that is not completed.", count, 4,
			query{"max by (run) (millrace_run_next_step" + ofRun + ")", "{{run}}"}),
		goodput, waiting, up, alarms,
		chart("Step time: mean, and the 95th percentile", "The level that a run has, without the prefill. A jump has its "+
			"cause in the rows below.", seconds, 12,
			query{mean("run", "millrace_step_duration_seconds", ofRun), "{{run}}"},
			query{quantile(0.95, "run", "millrace_step_duration_seconds", ofRun), "{{run}}, 95th percentile"}),
		chart("Time since the latest step", "Since it was completed, or the run was started or resumed. Far above the step "+
			"time: millrace run waits RUN.", seconds, 12,
			query{"time() - max by (run) (millrace_run_progress_timestamp_seconds" + ofRun + ")", "{{run}}"}),
	}
}

func stepTime() []panel {
	perStep := rate("phase", "millrace_step_phase_seconds_total"+ofRun) + " / on () group_left () " +
		"(sum(rate(millrace_step_duration_seconds_count" + ofRun + "[$__rate_interval])) > 0)"
	return []panel{
		parts("Where a step's time goes", "Mean seconds of a step of the chosen runs, by phase; they add up. Orange is what "+
			"the trainer waits.", seconds, 16, query{perStep, "{{phase}}"}),
		chart("Share of waiting in the latest steps", "The smallest in 1, 3 and 10 of them: above a figure, it was more in "+
			"each of them.", share, 8,
			query{"max by (run, steps) (millrace_step_wait_ratio" + ofRun + ")", "{{run}}, {{steps}} steps"}),
	}
}

func starvation() []panel {
	return []panel{
		parts("What trainers wait for", "Seconds waited in a second, by what the missing groups were doing: gated by "+
			"depth or a bound, queue, cold engines, adapters, inference, environment, stragglers.", share, 12,
			query{rate("reason", "millrace_trainer_starved_seconds_total"+ofRun), "{{reason}}"}),
		parts("The first fill", "The same before step 0, while the buffer is filled.", share, 12,
			query{rate("reason", "millrace_trainer_prefill_seconds_total"+ofRun), "{{reason}}"}),
		parts("Groups by state, and their target", "Ready pinned at 0: rollouts are too slow. Ready at the target: the "+
			"trainer is.", count, 12,
			query{"sum by (state) (millrace_buffer_groups" + ofRun + ")", "{{state}}"},
			query{"sum(millrace_buffer_target_groups" + ofRun + ")", "target"}),
		chart("Batches ready, and the depth", "Batches' worth of groups that the trainer may claim at once.", count, 12,
			query{"max by (run) (millrace_buffer_ready_batches" + ofRun + ")", "{{run}} ready"},
			query{"max by (run) (millrace_buffer_depth_batches" + ofRun + ")", "{{run}} depth"}),
		chart("Groups in play", "Groups of which games are being played.", count, 8,
			query{"max by (run) (millrace_buffer_inflight_groups" + ofRun + ")", "{{run}}"}),
		chart("Held below the depth by a bound", "1 while a bound keeps the run from launching what its depth asks for.",
			count, 8, query{"max by (run, reason) (millrace_buffer_throttled" + ofRun + ")", "{{run}}: {{reason}}"}),
		chart("Stored trajectories", "Bytes in Redis; buffer.max_bytes bounds them.", bytesOf, 8,
			query{"max by (run) (millrace_buffer_bytes" + ofRun + ")", "{{run}}"}),
		chart("Where a group's time goes", "Mean seconds: from launch to the first request, and to its commit; the slowest "+
			"game's at engines and in the environment.", seconds, 12,
			query{mean("stage", "millrace_group_duration_seconds", ofRun), "{{stage}}"}),
		chart("Time of one game", "Median and 95th percentile. Far apart: stragglers hold groups back.", seconds, 12,
			query{quantile(0.5, "run", "millrace_episode_duration_seconds", ofRun), "{{run}}"},
			query{quantile(0.95, "run", "millrace_episode_duration_seconds", ofRun), "{{run}}, 95th percentile"}),
	}
}

func tokens() []panel {
	engines := func(direction string) query {
		series := `millrace_engine_tokens_total{engine=~"$engine",direction="` + direction + `"}`
		return query{rate("engine", series), "{{engine}}"}
	}
	return []panel{
		parts("Output tokens by engine", "Generated tokens a second of wall time, by the engines' own counters; they add up.",
			perSec, 12, engines("output")),
		parts("Input tokens by engine", "Prompt tokens a second, cached ones included.", perSec, 12, engines("input")),
		parts("Tokens by run and direction", "By the usage of answered requests.", perSec, 12,
			query{rate("run, direction", "millrace_tokens_total"+ofBoth), "{{run}} {{direction}}"}),
		chart("Tokens that no answer accounts for", "Share of the engine's own count. Above a tenth: somebody else uses it.",
			share, 12, query{"max by (engine, direction) (abs(millrace_engine_usage_error_ratio" + ofEngine + "))",
				"{{engine}} {{direction}}"}),
		perEngine("Requests in each engine's batch", "A row for each engine.", count, "millrace_engine_inflight"),
		perEngine("Requests in each engine's own queue", "More than none for long: more than it can run at once.", count,
			"millrace_engine_queue"),
		perEngine("KV cache of each engine", "Near 1 requests are preempted.", share, "millrace_engine_kv_cache_ratio"),
		perEngine("Prompt tokens found in each engine's prefix cache", "Low after a restart or where games move.", share,
			"millrace_engine_prefix_hit_ratio"),
		chart("KV cache: mean of the fleet, and its fullest engine", "The mean hides the one that suffers.", share, 12,
			query{"avg(millrace_engine_kv_cache_ratio" + ofEngine + ")", "mean"},
			query{"max(millrace_engine_kv_cache_ratio" + ofEngine + ")", "fullest"}),
		chart("Wait in dispatch queues: mean of the fleet, and the longest", "Before a request is sent to an engine.",
			seconds, 12,
			query{"avg(millrace_engine_dispatch_queue_seconds" + ofEngine + ")", "mean"},
			query{"max(millrace_engine_dispatch_queue_seconds" + ofEngine + ")", "longest"}),
	}
}

func learning() []panel {
	return []panel{
		chart("Staleness of what was trained on", "Versions that the trainer was ahead of a group's oldest sampler: mean, "+
			"and the 95th percentile.", count, 12,
			query{mean("run", "millrace_policy_lag_versions", ofRun), "{{run}}"},
			query{quantile(0.95, "run", "millrace_policy_lag_versions", ofRun), "{{run}}, 95th percentile"}),
		parts("Where the last batch became stale", "While it was played, and in the buffer.", count, 12,
			query{"avg by (place) (millrace_policy_lag_mean_versions" + ofRun + ")", "{{place}}"}),
		parts("Groups dropped", "A minute, by reason. stale: games that were played for nothing.", count, 8,
			query{"60 * " + rate("reason", "millrace_stale_dropped_total"+ofRun), "{{reason}}"}),
		chart("Policy version", "Newest that serves.", count, 8,
			query{"max by (run) (millrace_policy_version" + ofRun + ")", "{{run}}"}),
		chart("Groups without reward variance", "Share of the latest; no gradient comes of them. collapsed is 1 while "+
			"most are so.", share, 8,
			query{"max by (run) (millrace_signal_flat_ratio" + ofRun + ")", "{{run}}"},
			query{"max by (run) (millrace_signal_collapsed" + ofRun + ")", "{{run}} collapsed"}),
	}
}

func failures() []panel {
	return []panel{
		parts("Tries at games", "A minute, by result. Why they fail: millrace game failures RUN.", count, 12,
			query{"60 * " + rate("result", "millrace_episodes_total"+ofRun), "{{result}}"}),
		parts("Requests that dispatch gave up", "A minute, by reason.", count, 12,
			query{"60 * " + rate("reason", "millrace_requests_rejected_total"), "{{reason}}"}),
		parts("Engines by state", "lost: it does not answer; quarantined: it answers, and completes nothing.", count, 12,
			query{"sum by (state) (max by (engine, state) (millrace_engine_state" + ofEngine + "))", "{{state}}"}),
		chart("Workers that keep requests from an engine", "Breakers, after failures: of one run, or of all.", count, 12,
			query{"max by (engine, scope) (millrace_engine_breaker_open" + ofEngine + ")", "{{engine}} {{scope}}"}),
		chart("Loads of adapters", "95th percentile of those that succeeded.", seconds, 8,
			query{quantile(0.95, "engine", "millrace_engine_adapter_load_seconds", ofEngine), "{{engine}}"}),
		chart("Loads of adapters that failed", "In a quarter of an hour.", count, 8,
			query{"sum by (engine) (increase(millrace_engine_adapter_load_failures_total" + ofEngine + "[15m]))",
				"{{engine}}"}),
		chart("Cold starts", "95th percentile of an engine's time from its first sign of life to ready.", seconds, 8,
			query{quantile(0.95, "engine", "millrace_engine_cold_start_seconds", ofEngine), "{{engine}}"}),
		chart("Redis came back older", "Times that a run had to repair its account.", count, 12,
			query{"max by (run) (millrace_run_rollbacks_total" + ofRun + ")", "{{run}}"}),
		chart("Runs whose workflow was gone", "In half an hour: millrace run resume RUN.", count, 12,
			query{"sum by (run) (increase(millrace_run_lost_total" + ofRun + "[30m]))", "{{run}}"}),
	}
}
