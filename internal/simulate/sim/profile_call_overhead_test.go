package sim

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
)

// TestMeasuredCallOverheadIsUsed: a calibrated profile knows what a call takes; a setup that says nothing follows it.
func TestMeasuredCallOverheadIsUsed(t *testing.T) {
	t.Parallel()
	p, err := enginemodel.LoadProfile("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	p.Engine.CallOverheadMS = enginemodel.Figure{Value: 31, Kind: enginemodel.Measured, Source: "a calibration"}
	file := filepath.Join(t.TempDir(), "mine.json")
	if err := os.WriteFile(file, p.Text(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		profile string
		given   bool
		want    time.Duration
	}{
		{file, false, 31 * time.Millisecond}, {file, true, 5 * time.Millisecond},
		{"a100-80gb", false, 5 * time.Millisecond}, {"./none.json", false, 5 * time.Millisecond},
	} {
		s := DefaultSetup()
		s.Fleet.Profile = tt.profile
		notes := s.Complete(func(path string) bool { return tt.given && path == "overheads.call" })
		if got := s.Overheads.Call.Std(); got != tt.want {
			t.Errorf("%s, given %t: a call takes %v, want %v", tt.profile, tt.given, got, tt.want)
		}
		noted := slices.ContainsFunc(notes, func(a Assumption) bool { return a.Key == "overheads.call" })
		if noted != (tt.want == 31*time.Millisecond) {
			t.Errorf("%s: %+v", tt.profile, notes)
		}
	}
}
