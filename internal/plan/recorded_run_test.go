package plan

import (
	"os"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/runrecord"
	"github.com/millrace/millrace/internal/sim"
	"github.com/millrace/millrace/internal/sim/calibration"
)

// The recorded run of config/examples/seed-004.yaml, played live with 2 engines, is planned with 4, and not deeper.
func TestRecordedRun(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("simulates a dozen runs: some seconds")
	}
	const path = "../sim/calibration/testdata/seed-004/base.json.gz"
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	record, err := runrecord.Read(path, f)
	if err != nil {
		t.Fatal(err)
	}
	c, err := calibration.Calibrate(t.Context(), record, calibration.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := Request{Setup: c.Setup, Grid: Grid{Engines: []int{2, 4, 5}, Depths: []int{2, 4}}, Seeds: 1, Price: 1.89}
	p, err := Make(t.Context(), r, Options{Simulate: sim.Run, Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	r = r.withDefaults()
	for _, price := range []float64{1.89, 0} {
		p.Price, p.Recommendations = price, nil
		p.markFrontier()
		p.recommend(r)
		rec := p.Recommendations[0]
		if rec.Setting == nil || rec.Setting.Engines != 4 || rec.Setting.Depth != 2 {
			t.Errorf("recommends %q, want 4 engines at depth 2", rec.Text)
		}
		if all := strings.Join(rec.Reasons, "\n"); !strings.Contains(all, "with 2 engines more depth would not help") {
			t.Errorf("does not say that depth would not help:\n%s", all)
		}
		checkLaws(t, p)
	}
}
