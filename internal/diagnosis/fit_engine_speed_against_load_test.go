package diagnosis

import (
	"math"
	"os"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis/runrecord"

	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// recorded is what a record in testdata/saturated holds for a diagnosis.
func recorded(t *testing.T, name string) Input {
	t.Helper()
	f, err := os.Open("testdata/saturated/" + name + ".json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := runrecord.Read(name, f)
	if err != nil {
		t.Fatal(err)
	}
	return Input{Spec: r.Run.Spec, Records: r.Steps, Over: r.Run.State == runstatus.RunCompleted}
}

// One recorded run of a saturated engine with free slots tells what other runs gave that differed in one thing: see
// testdata/saturated/README.md.
func TestSaturatedEngineTellsOtherRuns(t *testing.T) {
	t.Parallel()
	in := recorded(t, "depth2")
	m := measure(in, newHistory(in.Records, nil, 0))
	reg := regimeOf(&m)
	model, ok := newReplayModel(&m, &reg)
	if !ok || reg.Kind != CapacityBound || reg.Resource != EngineSpeed {
		t.Fatalf("%s by %q, want saturated engines; %+v", reg.Kind, reg.Resource, reg.speed.Fit)
	}
	for _, tt := range []struct {
		name   string
		change change
		within float64
	}{
		{"depth2", change{}, 0.03}, {"engines2", change{engines: 2}, 0.1}, {"engines3", change{engines: 3}, 0.15},
		{"depth6", change{depth: 6, admitted: 8}, 0.13},
	} {
		h := newHistory(recorded(t, tt.name).Records, nil, 0)
		was, is := 0.0, meanWall(model.changed(tt.change).replay(len(h.all)))
		for i := range h.all {
			was += h.all[i].wall / float64(len(h.all))
		}
		if math.Abs(is/was-1) > tt.within {
			t.Errorf("%s: a step takes %.2f s by the replay, and took %.2f s (%+.1f %%)", tt.name, is, was, 100*(is/was-1))
		}
	}
}
