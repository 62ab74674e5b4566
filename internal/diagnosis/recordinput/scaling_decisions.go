package recordinput

import (
	"slices"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// addAct adds a decision of scaling with what it is predicted to do to the run's steps.
func addAct(in *diagnosis.Input, e telemetry.Event, body telemetry.FleetScaled) {
	act := diagnosis.ScalingAct{At: e.At, Decision: body.Decision, From: body.From, To: body.To, Reason: body.Reason,
		Undone: body.Code == "undone" || body.Code == "restored"}
	for _, effect := range body.Predicted {
		if effect.Run == in.Spec.Name {
			act.BeforeSec, act.PredictedSec = effect.BeforeSec, effect.PredictedSec
		}
	}
	in.ScalingActs = append(in.ScalingActs, act)
}

// measureAct notes what a decision did to the run's steps.
func measureAct(in *diagnosis.Input, body telemetry.FleetMeasured) {
	for i := range slices.Backward(in.ScalingActs) {
		act := &in.ScalingActs[i]
		if act.Decision != body.Decision {
			continue
		}
		for _, effect := range body.Effects {
			if effect.Run == in.Spec.Name {
				act.BeforeSec, act.MeasuredSec = effect.BeforeSec, effect.MeasuredSec
			}
		}
		return
	}
}
