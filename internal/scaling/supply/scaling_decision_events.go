package supply

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/scaling"
)

// DecisionEvent is the fact of a decision; its key identifies duplicates.
func DecisionEvent(d scaling.Decision) telemetry.Event {
	return telemetry.Event{At: d.At, Key: decisionKey(d.No, d.At), Body: telemetry.FleetScaled{
		Decision: d.No, From: d.From, To: d.To, Code: string(d.Code), Reason: d.Reason, Next: d.Next,
		Predicted: effects(d.Predicted), Cost: d.Cost,
	}}
}

// MeasuredEvent is the fact of what a decision did, with what the fleet has cost so far.
func MeasuredEvent(m scaling.Measured, cost float64) telemetry.Event {
	return telemetry.Event{At: m.At, Key: decisionKey(m.Decision, m.At), Body: telemetry.FleetMeasured{
		Decision: m.Decision, From: m.From, To: m.To, Effects: effects(m.Effects), Text: m.Text, Cost: cost,
	}}
}

// TroubleEvent is the fact that a provider does not do what it is asked for since a time, or does so again: trouble is
// empty then.
func TroubleEvent(at time.Time, provider, trouble string) telemetry.Event {
	return telemetry.Event{At: at, Key: fmt.Sprintf("fleet/provider/%d", at.UnixMilli()),
		Body: telemetry.ProviderChanged{Provider: provider, Trouble: trouble}}
}

// decisionKey names a decision: numbers begin anew where a deployment's Temporal does, times do not.
func decisionKey(no int, at time.Time) string {
	return fmt.Sprintf("fleet/scaling/%d/%d", no, at.UnixMilli())
}

func effects(all []scaling.Effect) []telemetry.ScalingEffect {
	var out []telemetry.ScalingEffect
	for _, e := range all {
		out = append(out, telemetry.ScalingEffect(e))
	}
	return out
}
