package sim

import (
	"context"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/scaling"
)

// TestDiagnosisOfASmallerFleet: a run whose fleet an operator makes smaller while it is scaled is told who did it, and
// to move the bound: an engine that is added by hand would take the place of one that was bought.
func TestDiagnosisOfASmallerFleet(t *testing.T) {
	t.Parallel()
	large := scaling.Config{Policy: scaling.Starvation, Min: 1, Max: 8}
	small := large
	small.Max = 2
	s := seed004(34, 1)
	s.Fleet.ColdStart = rollout.Duration(60 * second)
	shrink := Change{Step: 16, Do: func(c *Control) {
		for _, command := range c.scaler.machine.Handle(scaling.Set{At: c.at(c.now()), Config: small}) {
			if change, ok := command.(scaling.Change); ok {
				c.scaler.result.Decisions = append(c.scaler.result.Decisions, change.Decision)
			}
		}
	}}
	o := Options{MaxSteps: 30, Scaling: &Scaling{Config: large}, Changes: []Change{shrink}}
	r, err := Run(context.Background(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	in := r.Input
	for _, d := range r.Scaled.Decisions {
		in.ScalingActs = append(in.ScalingActs, diagnosis.ScalingAct{At: d.At, From: d.From, To: d.To, Reason: d.Reason})
	}
	in.Over = false
	in.Scaling = &diagnosis.ScalingNow{Wanted: 2, Max: 2, Most: scaling.MostEngines, Affordable: scaling.MostEngines}
	report := diagnosis.Diagnose(in)
	if report.Regime.Kind != diagnosis.CapacityBound || report.Regime.Resource != diagnosis.EngineSlots {
		t.Errorf("%s, %s", report.Regime.Kind, report.Regime.Resource)
	}
	first := report.Findings[0]
	const says = "scaling gave back 3 engines: an operator set min 1, max 2, in step 16, felt from step "
	if first.Cause != diagnosis.CauseScaleDown || !strings.Contains(first.Text, says) {
		t.Errorf("%s: %s", first.Cause, first.Text)
	}
	if report.Next[0] != "millrace fleet set max=4" {
		t.Errorf("next: %q", report.Next)
	}
}
