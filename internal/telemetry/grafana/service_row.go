package grafana

// service is the row of what runs are made with, whichever run.
func service() []panel {
	redis := number("Redis answers", "1 for each server that it answers.", count, 4,
		query{"min by (instance) (millrace_redis_up)", "{{instance}}"})
	redis.greens = 1
	leads := number("Server that leads", "The one that shows what is of the whole deployment.", count, 4,
		query{"millrace_metrics_leader == 1", "{{instance}}"})
	degraded := number("Sinks that need somebody", "They refuse the token, the dataset or the address, or the disk is "+
		"full.", count, 4, query{"max by (sink) (millrace_sink_degraded) > 0", "{{sink}}"})
	degraded.reds = 1
	return []panel{
		redis, leads,
		number("Workers", "By state: millrace worker list.", count, 4,
			query{"max by (state) (millrace_workers)", "{{state}}"}),
		number("Sinks", "The state in which each is.", count, 4,
			query{"max by (sink, state) (millrace_sink_state) == 1", "{{sink}}: {{state}}"}),
		degraded,
		number("Dead letters", "Events that a sink refused, kept: millrace telemetry dead-letters.", count, 4,
			query{"max by (sink) (millrace_sink_dead_letters)", "{{sink}}"}),
		chart("Facts that wait on a disk", "Redis does not take them.", bytesOf, 8,
			query{"max by (instance) (millrace_sink_spool_bytes)", "{{instance}}"}),
		chart("Events that wait", "In a process for the store, and in the store for a sink.", count, 8,
			query{"max by (instance, sink) (millrace_sink_waiting_events)", "{{instance}} for {{sink}}"},
			query{"max by (sink) (millrace_sink_backlog_events)", "for {{sink}}"}),
		chart("Age of the oldest event that a sink has not taken", "Grows while it does not answer.", seconds, 8,
			query{"max by (sink) (millrace_sink_lag_seconds)", "{{sink}}"}),
		parts("Events by what became of them", "A second. lost and lost_fact: millrace status.", perSec, 12,
			query{rate("sink, result", "millrace_sink_events_total"), "{{sink}} {{result}}"}),
		parts("Requests to sinks", "A second.", perSec, 12, query{rate("sink", "millrace_sink_requests_total"), "{{sink}}"}),
		chart("Games that workers play, and may", "Games near the slots: start another worker.", count, 12,
			query{"sum by (instance) (millrace_worker_games" + ofRun + ")", "{{instance}} plays"},
			query{"max by (instance) (millrace_worker_slots)", "{{instance}} slots"}),
		parts("Requests of workers' games", "queued: for want of engines.", count, 12,
			query{"sum by (place) (millrace_worker_requests" + ofRun + ")", "{{place}}"}),
		chart("Workers' shares of engines", "Requests that a worker may have in flight at all engines together.", count, 8,
			query{"sum by (instance) (millrace_worker_share" + ofEngine + ")", "{{instance}}"}),
		parts("Refused by servers", "Requests and connections a second, by reason.", perSec, 8,
			query{rate("reason", "millrace_refused_total"), "{{reason}}"}),
		chart("Requests to Temporal, 95th percentile", "By the SDK of servers and workers, long polls left out.", seconds, 8,
			query{quantile(0.95, "operation", "temporal_request_latency_seconds", ""), "{{operation}}"}),
		chart("Processor time", "Cores of each server and worker.", count, 12,
			query{"rate(process_cpu_seconds_total[$__rate_interval]) and on (instance) (millrace_metrics_leader or " +
				"millrace_worker_slots)", "{{instance}}"}),
		chart("Memory", "Resident bytes of each server and worker.", bytesOf, 12,
			query{"process_resident_memory_bytes and on (instance) (millrace_metrics_leader or millrace_worker_slots)",
				"{{instance}}"}),
	}
}
