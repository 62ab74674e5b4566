package prom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/internal/scaling/supply"
)

var (
	fleetEnginesDesc = desc(prefix+"fleet_engines", "Engines of a fleet that is scaled, by state: starting, ready, "+
		"draining. Absent, as all millrace_fleet_*, where nobody scales.", "state")
	fleetWantedDesc = desc(prefix+"fleet_engines_wanted", "Engines that scaling wants: what a scaler of somebody else's, "+
		"such as KEDA or an HPA, follows (provider advise).")
	fleetStartedDesc = desc(prefix+"fleet_engines_started_total", "Engines that the provider was asked for.")
	fleetCostDesc    = desc(prefix+"fleet_cost_dollars_total", "What the fleet has cost so far, in $, with the price "+
		"that is configured.")
	fleetTroubleDesc = desc(prefix+"fleet_provider_trouble", "1 while the provider does not do what it is asked for.",
		"provider")
	fleetSampledDesc = desc(prefix+"fleet_sampled_timestamp_seconds", "When scaling took its newest sample, as Unix time.")
)

// scaledFleetDescs is the metrics of a fleet that is scaled.
var scaledFleetDescs = []*prometheus.Desc{
	fleetEnginesDesc, fleetWantedDesc, fleetStartedDesc, fleetCostDesc, fleetTroubleDesc, fleetSampledDesc,
}

// collectFleet shows a fleet that is scaled.
func collectFleet(v *supply.View, out chan<- prometheus.Metric) {
	for state, n := range map[string]int{
		"starting": v.Actual.Starting, "ready": v.Actual.Ready, "draining": v.Actual.Draining,
	} {
		out <- gaugeOf(fleetEnginesDesc, float64(n), state)
	}
	out <- gaugeOf(fleetWantedDesc, float64(v.Wanted))
	out <- prometheus.MustNewConstMetric(fleetStartedDesc, prometheus.CounterValue, float64(v.Started))
	out <- prometheus.MustNewConstMetric(fleetCostDesc, prometheus.CounterValue, v.Cost)
	out <- gaugeOf(fleetTroubleDesc, truth(v.Trouble != ""), v.Provider)
	out <- gaugeOf(fleetSampledDesc, float64(v.At.UnixMilli())/1000)
}
