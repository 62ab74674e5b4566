package calibration_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis/runrecord"
	"github.com/millrace/millrace/internal/simulate/sim/calibration"
	"github.com/millrace/millrace/internal/simulate/sim/prediction"
)

func readRecord(t testing.TB, path ...string) *runrecord.Record {
	t.Helper()
	name := filepath.Join(append([]string{"testdata"}, path...)...)
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := runrecord.Read(name, f)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestLiveEqualsSimulated: from the record of one live run alone, the mean steady step of live runs with other engines,
// another depth and other groups is predicted within 5 %, and the onset of starvation within one step. The records are
// those of `make predict`, made smaller.
func TestLiveEqualsSimulated(t *testing.T) {
	t.Parallel()
	for _, example := range prediction.Examples() {
		t.Run(example.Name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && example.Name != "seed-004" {
				t.Skip("one of them is enough under the race detector; run without -short")
			}
			base := readRecord(t, example.Name, "base.json.gz")
			c, err := calibration.Calibrate(t.Context(), base, calibration.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if m := c.Fit.MeanStep; math.Abs(m.Simulated/m.Recorded-1) > 0.03 || c.Fit.MedianError > 0.05 {
				t.Errorf("the simulated run does not meet its own record: %+v", c.Fit)
			}
			for _, v := range example.Variants {
				t.Run(v.Name, func(t *testing.T) {
					t.Parallel()
					live := readRecord(t, example.Name, v.Name+".json.gz")
					p, err := prediction.Predict(t.Context(), c, v, live)
					if err != nil {
						t.Fatal(err)
					}
					t.Log(p)
					if err := p.Fault(); err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
}

// TestSameRecordSameSetup: calibration knows no chance.
func TestSameRecordSameSetup(t *testing.T) {
	t.Parallel()
	var fits [2]calibration.Calibration
	for i := range fits {
		r := readRecord(t, "seed-004", "base.json.gz")
		r.Steps = r.Steps[:4]
		c, err := calibration.Calibrate(t.Context(), r, calibration.Options{})
		if err != nil {
			t.Fatal(err)
		}
		fits[i] = *c
	}
	a, b := fits[0], fits[1]
	if a.Setup.Fleet.TimeFactor != b.Setup.Fleet.TimeFactor || a.Setup.Overheads != b.Setup.Overheads ||
		!slices.Equal(a.Fit.Steps, b.Fit.Steps) || !slices.Equal(a.Parameters, b.Parameters) {
		t.Errorf("got %+v, then %+v", a, b)
	}
}

// TestARecordThatSaysTooLittleIsRefused says what is missing.
func TestARecordThatSaysTooLittleIsRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		spoil  func(*runrecord.Record)
		want   string
		warned bool
	}{
		{"no steps", func(r *runrecord.Record) { r.Steps = nil },
			"0 steps are done and have their groups, 3 are needed", false},
		{"two steps", func(r *runrecord.Record) { r.Steps = r.Steps[:2] }, "2 steps are done", false},
		{"no groups", func(r *runrecord.Record) {
			for i := range r.Steps {
				r.Steps[i].Service.Groups = nil
			}
		}, "0 steps are done and have their groups", false},
		{"games without turns", func(r *runrecord.Record) {
			r.Events = nil
			for i := range r.Steps {
				for k := range r.Steps[i].Service.Groups {
					r.Steps[i].Service.Groups[k].Usage.Requests = 0
				}
			}
		}, "it has no game with its turns and tokens", false},
		{"only the newest steps", func(r *runrecord.Record) { r.Steps = r.Steps[2:] },
			"the steps before step 2 have no groups any more", true},
		{"no events", func(r *runrecord.Record) { r.Events = nil }, "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := readRecord(t, "seed-004", "base.json.gz")
			r.Steps = r.Steps[:5]
			tt.spoil(r)
			c, err := calibration.Calibrate(t.Context(), r, calibration.Options{})
			if tt.warned {
				if err != nil || !strings.Contains(strings.Join(c.Warnings, "\n"), tt.want) {
					t.Errorf("got %v, want the warning %q", err, tt.want)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

// TestTheNewestStepsAreEnough: a record that has lost its first steps finds engines that are as fast.
func TestTheNewestStepsAreEnough(t *testing.T) {
	t.Parallel()
	r := readRecord(t, "seed-004", "base.json.gz")
	r.Steps = r.Steps[4:]
	c, err := calibration.Calibrate(t.Context(), r, calibration.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const factor = 1 / 30.0 // the run was played at 30 times the engines' speed
	if got := c.Setup.Fleet.TimeFactor; math.Abs(got/factor-1) > 0.03 {
		t.Errorf("a time factor of %.4f, want %.4f", got, factor)
	}
	if got := c.Fit.Steps[0].Step; got != 4 {
		t.Errorf("the first compared step is %d, want 4", got)
	}
}
