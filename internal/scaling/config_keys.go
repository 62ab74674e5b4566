package scaling

import (
	"time"

	"github.com/millrace/millrace/internal/kit/settings"
)

// Keys is a row for every setting of a Config, for the configuration's section `scaling` and for changes while the
// service runs. Rules that concern several of them are Validate's.
var Keys = settings.Table{Keys: []settings.Key{
	{Path: "policy", Default: Starvation, OneOf: []string{string(Starvation), string(Queue), string(Fixed)},
		Doc: "by what engines are bought: starvation (what shortens steps), queue (requests outstanding) or fixed"},
	{Path: "engines", Min: settings.Bound(0), Max: settings.Bound(MostEngines), Doc: "how many fixed wants"},
	{Path: "min", Default: 1, Min: settings.Bound(0), Max: settings.Bound(MostEngines),
		Doc: "engines at least, while the fleet does not sleep"},
	{Path: "max", Required: true, Min: settings.Bound(1), Max: settings.Bound(MostEngines), Doc: "engines at most"},
	{Path: "scale_to_zero", Min: settings.Bound(0), Max: settings.Bound(day), Example: "15m",
		Doc: "for how long no run must be active before every engine is given back; 0: never"},
	{Path: "price", Min: settings.Bound(0), Doc: "what an engine costs, in $ per hour; 0: not known"},
	{Path: "budget_per_hour", Min: settings.Bound(0), Doc: "what all engines may cost, in $ per hour; 0: no bound"},
	{Path: "cold_start", Min: settings.Bound(0), Max: settings.Bound(day), Example: "2m",
		Doc: "taken for an engine's until one was seen; 0: " + DefaultColdStart.String()},
	{Path: "queue", Doc: "of policy queue, with the semantics of Modal's autoscaler (docs/scaling.md)"},
	{Path: "queue.target_inputs", Min: settings.Bound(0), Max: settings.Bound(1_000_000),
		Doc: "requests, waiting or running, for each engine; needed by policy queue"},
	{Path: "queue.buffer", Min: settings.Bound(0), Max: settings.Bound(MostEngines),
		Doc: "engines beyond what the requests ask for, while there are any"},
	{Path: "queue.scale_up_window", Min: settings.Bound(0), Max: settings.Bound(day),
		Doc: "for how long more engines must be wanted before they are started"},
	{Path: "queue.scale_down_window", Min: settings.Bound(0), Max: settings.Bound(day),
		Doc: "for how long an engine must not be wanted before it ends"},
	{Path: "starvation", Doc: "of policy starvation"},
	{Path: "starvation.target_step", Min: settings.Bound(0), Max: settings.Bound(day), Example: "5m",
		Doc: "a step time that is short enough, even where the trainer alone would be faster; 0: the trainer's"},
	{Path: "starvation.head_room", Min: settings.Bound(0), Max: settings.Bound(1),
		Doc: "how much more than runs need is bought, as a share; 0: 0.05"},
}}

const day = float64(24 * time.Hour / time.Second)
