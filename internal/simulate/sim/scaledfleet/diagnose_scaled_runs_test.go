package scaledfleet

import (
	"context"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/simulate/sim"
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
	machine, err := scaling.New(large)
	if err != nil {
		t.Fatal(err)
	}
	by := &scaler{of: Scaling{Config: large}, machine: machine}
	shrink := sim.Change{Step: 16, Do: func(c *sim.Control) {
		for _, command := range machine.Handle(scaling.Set{At: c.Time(c.Agenda().Now()), Config: small}) {
			if change, ok := command.(scaling.Change); ok {
				by.result.Decisions = append(by.result.Decisions, change.Decision)
			}
		}
	}}
	r, scaled, err := run(context.Background(), s, sim.Options{MaxSteps: 30, Changes: []sim.Change{shrink}}, by)
	if err != nil {
		t.Fatal(err)
	}
	in := r.Input
	for _, d := range scaled.Decisions {
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
	if report.Next[0] != "millrace engine scaling max=4" {
		t.Errorf("next: %q", report.Next)
	}
}
