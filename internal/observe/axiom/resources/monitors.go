package resources

import "fmt"

// monitors are in the order of their weight: a plan that allows three has the first three.
func monitors(d string) []Monitor {
	threshold := func(name, description, operator string, threshold float64, minutes int, apl string) Monitor {
		return Monitor{
			Name: fmt.Sprintf("Millrace %s: %s", d, name), Description: description, Type: "Threshold", APLQuery: apl,
			Operator: operator, Threshold: threshold, NotifyByGroup: true, Resolvable: true, IntervalMinutes: 5,
			RangeMinutes: minutes, NotifierIDs: []string{},
		}
	}
	nothing := threshold("nothing arrives", "No sample of an engine or a dispatcher has come for ten minutes: the "+
		"service is down, or its sink is degraded. See millrace status.", "Below", 1, 10, fmt.Sprintf(`['%s']
| where kind in ('engine_sample', 'dispatch_sample')
| summarize samples = count()`, d))
	nothing.AlertOnNoData, nothing.NotifyByGroup = true, false
	return []Monitor{
		threshold("starved share", "A trainer waited for more than a fifth of its steps' time. See millrace diagnose RUN.",
			"Above", 0.2, 30, steps(d, "phase_wait_s")+`
| summarize waited_s = sum(phase_wait_s), all_s = sum(wall_s) by run_id
| extend starved_share = `+share("waited_s", "all_s")+`
| project run_id, starved_share`),
		nothing,
		threshold("no step", "A run is going, and no step of it was completed for half an hour. See millrace run show RUN.",
			"Below", 1, 30, fmt.Sprintf(`['%s']
| where kind in ('buffer_level', 'training_step')
| summarize samples = countif(kind == 'buffer_level'), steps = countif(kind == 'training_step') by run_id
| where samples > 0
| project run_id, steps`, d)),
		threshold("engine slow", "An engine lags behind the fleet. See millrace engine list.", "Above", 0, 15,
			once(d, "engine_paced", "engine_id", "lagging")+`
| summarize began_to_lag = countif(lagging == true) by engine_id`),
		threshold("staleness drops", "More than ten groups were dropped because they became too stale: games are played for "+
			"nothing. See millrace diagnose RUN.", "Above", 10, 30, once(d, "group_dropped", "run_id", "code")+`
| where code == 'stale'
| summarize groups = count() by run_id`),
	}
}
