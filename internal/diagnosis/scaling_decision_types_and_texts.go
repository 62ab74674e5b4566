package diagnosis

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/kit/units"
)

// ScalingAct is a decision about the number of engines, with its effect on the run's steps.
type ScalingAct struct {
	At       time.Time
	Decision int
	From, To int
	Reason   string
	// A step before, as predicted and as measured, in seconds; 0: not known.
	BeforeSec, PredictedSec, MeasuredSec float64
	Undone                               bool // it takes back another one
}

// ScalingNow is the present state of scaling.
type ScalingNow struct {
	Wanted, Max int
	Most        int     // that Max may be set to
	Affordable  int     // that the budget pays for; Most, where nothing bounds it
	Fixed       bool    // an operator says how many there are, and nothing else
	Price       float64 // of an engine, in $ per hour; 0: not known
	Starting    int
	Why         string
	Trouble     string // of the provider
}

// drainsWithin is how long after a decision the engines begin to go that it takes out, at most: the workers that are to
// do it may have to be started again.
const drainsWithin = 2 * time.Minute

// actsTold is how many decisions are in a report: the newest.
const actsTold = 3

// scalingText describes scaling's acts for the run and its present state, a sentence for each.
func scalingText(m *measurements, in *Input, capacity bool) []string {
	var lines []string
	acts := in.ScalingActs
	for _, a := range acts[max(0, len(acts)-actsTold):] {
		lines = append(lines, a.text(m))
	}
	now := in.Scaling
	if now == nil || in.Over { // what the fleet does now, it does for others
		return lines
	}
	paying, bought := min(now.Max, now.Affordable), in.Spec.MaxEngines
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	switch {
	case now.Trouble != "":
		say("scaling wants %s, and the provider does not bring them: %s", enginesText(float64(now.Wanted)), now.Trouble)
	case now.Starting > 0:
		say("scaling waits for %s to start", enginesText(float64(now.Starting)))
	case capacity && now.Wanted >= paying && paying < now.Max:
		say("capacity-bound, and the budget of scaling pays for %s: raise it: millrace engine scaling budget_per_hour=%s",
			enginesText(float64(paying)), dollarsFor(min(2*paying, now.Max), now.Price))
	case capacity && now.Wanted >= now.Max && now.Max >= now.Most:
		say("capacity-bound, and scaling is at its max of %s, the most that a fleet may have",
			enginesText(float64(now.Max)))
	case capacity && now.Wanted >= now.Max:
		say("capacity-bound, and scaling is at its max of %s: raise it: millrace engine scaling max=%d",
			enginesText(float64(now.Max)), min(2*now.Max, now.Most))
	case capacity && bought > 0 && now.Wanted == bought:
		say("capacity-bound, and scaling buys %s for this run at most, its max_engines: raise it: millrace run set %s "+
			"max_engines=%d", enginesText(float64(bought)), in.Spec.Name, min(2*bought, now.Most))
	case now.Why != "":
		say("scaling wants %s: %s", enginesText(float64(now.Wanted)), now.Why)
	}
	return lines
}

// decisionBehind is an engine's leaving as the decision of scaling that took it out, if one did.
func decisionBehind(m *measurements, ev *Event) *Event {
	if ev == nil || ev.Kind != EventEngineLeft {
		return ev
	}
	for _, a := range slices.Backward(m.in.ScalingActs) {
		if after := ev.At.Sub(a.At); a.To < a.From && after >= 0 && after <= drainsWithin {
			return &Event{At: a.At, Kind: EventEngineLeft, Text: a.did() + ": " + a.Reason}
		}
	}
	return ev
}

// dollarsFor is the hourly cost of engines, rounded up to cents.
func dollarsFor(engines int, price float64) string {
	return fmt.Sprintf("%.2f", math.Ceil(100*price*float64(engines)-1e-6)/100)
}

// did describes the act.
func (a *ScalingAct) did() string {
	did := "bought"
	n := a.To - a.From
	if n < 0 {
		did, n = "gave back", -n
	}
	if a.Undone {
		did = map[bool]string{true: "bought back", false: "took back"}[a.To > a.From]
	}
	return fmt.Sprintf("scaling %s %s", did, enginesText(float64(n)))
}

func (a *ScalingAct) text(m *measurements) string {
	text := a.did()
	if m != nil {
		text += fmt.Sprintf(" at step %d", m.stepDuring(a.At))
	}
	switch change := a.MeasuredSec/a.BeforeSec - 1; {
	case a.BeforeSec > 0 && a.MeasuredSec > 0 && change < -0.005:
		text += fmt.Sprintf(", steps became %s shorter", units.Percent(-change))
	case a.BeforeSec > 0 && a.MeasuredSec > 0 && change > 0.005:
		text += fmt.Sprintf(", steps became %s longer", units.Percent(change))
	case a.BeforeSec > 0 && a.MeasuredSec > 0:
		text += ", steps stayed as long"
	case a.PredictedSec > 0:
		return text + fmt.Sprintf(", steps are predicted to take %s", units.Seconds(a.PredictedSec))
	default:
		return text + ": " + a.Reason
	}
	text += fmt.Sprintf(" (%s before, %s measured", units.Seconds(a.BeforeSec), units.Seconds(a.MeasuredSec))
	if a.PredictedSec > 0 {
		text += fmt.Sprintf(", %s predicted", units.Seconds(a.PredictedSec))
	}
	return text + ")"
}
