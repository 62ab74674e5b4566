package requestsim_test

import (
	"math"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/trials/diagnosis/requestsim"
)

// What engines do at a load does not depend on which steps are asked about: nothing is excluded of a part that the
// whole does not exclude. The curve can be checked with the numbers of the report alone.
func TestAPartOfARunHasTheSameEngines(t *testing.T) {
	t.Parallel()
	record := requestsim.Play(sweptWorld(0.14)).Record
	in := diagnosis.Input{Spec: record.Run.Spec, Records: record.Steps[:20], Loads: []diagnosis.AdapterLoad{}}
	whole := diagnosis.Diagnose(in)
	from, to := rollout.Step(7), rollout.Step(12)
	in.First, in.Last = &from, &to
	part := diagnosis.Diagnose(in)
	for name, r := range map[string]diagnosis.Report{"whole": whole, "part": part} {
		reg := r.Regime
		if reg.Kind != diagnosis.CapacityBound || reg.Resource != diagnosis.EngineSpeed {
			t.Fatalf("%s: %s by %q, want saturated engines\n%s", name, reg.Kind, reg.Resource, text(t, r))
		}
		l := reg.Load
		rise := 1 / (1 + math.Pow(l.InFlight/l.Half, l.Knee))
		if math.Abs(rise-l.Rise) > 0.01 || l.Basis != diagnosis.Fitted {
			t.Errorf("%s: h, k and n give a rise of %.3f, the report says %.3f, %s", name, rise, l.Rise, l.Basis)
		}
		if w := whatIf(r, "depth 2 -> 3"); w.Outcome == diagnosis.Helps {
			t.Errorf("%s: more depth helps saturated engines, %+v", name, w)
		}
	}
	if a, b := whole.Regime.Load, part.Regime.Load; math.Abs(a.Rise-b.Rise) > 0.05 || a.Observations != b.Observations {
		t.Errorf("of the whole run %+v, of a part %+v", a, b)
	}
}

// Engines that become slower have more in flight, because games last longer. Where requests do not feel each other,
// that is no load to be shared by more engines.
func TestSlowEnginesAreNotSaturated(t *testing.T) {
	t.Parallel()
	for _, slower := range []float64{2, 2.4} {
		w := requestsim.World{
			Name: "idle", Seed: 5, Steps: 400, Until: 34, Depth: 2, Groups: 2, Games: 3, MaxStaleness: 4,
			OnStale: runspec.DropStale, Turns: 40, TurnsCV: 0.05, Agents: 3, Prompt: 4000, Output: 73, TokensCV: 0.15,
			Shared: 0.7, Env: 1, Engines: 4, Slots: 24, Engine: requestsim.Engine{PromptSec: 0.0011, OutputSec: 0.03},
			Load: 3, Ref: 45, Train: 95, Publish: 7, Launch: 0.1, Commit: 0.2,
			Noise: requestsim.Noise{CV: 0.03}, FleetNoise: requestsim.Noise{CV: 0.02},
			Faults: []requestsim.Fault{{Step: 12, Do: func(c *requestsim.Control) { c.Slow(slower, false, c.All()...) }}},
		}
		record := requestsim.Play(w).Record
		r := diagnosis.Diagnose(diagnosis.Input{
			Spec: record.Run.Spec, Records: record.Steps, Loads: []diagnosis.AdapterLoad{}})
		if said := whatIf(r, "engines 4 -> 8"); said.Outcome == diagnosis.Helps || r.Regime.Kind != diagnosis.LatencyBound {
			t.Errorf("x%.1f: more engines: %s, %.0f s after %.0f s\n%s", slower, said.Outcome, said.StepSec,
				r.Regime.StepSec, text(t, r))
		}
	}
}
