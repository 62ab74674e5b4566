package grafana

// scaling is the row of a fleet whose engines are bought.
func scaling() []panel {
	trouble := number("Provider in trouble", "1: it does not bring engines: millrace fleet show.", count, 4,
		query{"max by (provider) (millrace_fleet_provider_trouble)", "{{provider}}"})
	trouble.reds = 1
	return []panel{
		number("Engines wanted", "By scaling. None: nobody scales the fleet.", count, 4,
			query{"max(millrace_fleet_engines_wanted)", "wanted"}),
		trouble,
		number("Cost so far", "In $, with the price that is configured.", count, 4,
			query{"max(millrace_fleet_cost_dollars_total)", "$"}),
		number("Engines asked for", "Of the provider, ever.", count, 4,
			query{"max(millrace_fleet_engines_started_total)", "asked for"}),
		number("Age of the newest sample", "Above a minute: no worker scales.", seconds, 4,
			query{"time() - max(millrace_fleet_sampled_timestamp_seconds)", "age"}),
		parts("Engines by state, and wanted", "What is wanted is a line of its own.", count, 12,
			query{"max by (state) (millrace_fleet_engines)", "{{state}}"},
			query{"max(millrace_fleet_engines_wanted)", "wanted"}),
		parts("Decisions by code", "A second; undone: engines that shortened nothing: millrace fleet show.", perSec, 12,
			query{rate("code", "millrace_fleet_decisions_total"), "{{code}}"}),
	}
}
