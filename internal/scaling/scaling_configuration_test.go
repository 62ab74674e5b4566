package scaling

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

func TestConfigReportsAllFaults(t *testing.T) {
	t.Parallel()
	good := Config{Policy: Starvation, Min: 1, Max: 8}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   []string
	}{
		{"policy", func(c *Config) { c.Policy = "modal" }, []string{`scaling.policy "modal"`}},
		{"bounds", func(c *Config) { c.Min, c.Max = 9, 3 }, []string{"scaling.max 3"}},
		{"no engine at all", func(c *Config) { c.Min, c.Max = 0, 0 }, []string{"scaling.max 0"}},
		{"fixed beyond its bounds", func(c *Config) { c.Policy, c.Engines = Fixed, 9 }, []string{"scaling.engines 9"}},
		{"queue without a target", func(c *Config) { c.Policy = Queue }, []string{"target_inputs 0"}},
		{"budget below min", func(c *Config) { c.Min, c.Price, c.Budget = 3, 2, 5 }, []string{"does not pay for"}},
		{"two at once", func(c *Config) {
			c.ScaleToZero, c.Starvation.HeadRoom = rollout.Duration(-time.Second), 2
		}, []string{"scale_to_zero", "head_room"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := good
			tt.change(&c)
			err := c.Validate()
			if err == nil {
				t.Fatal("it is taken")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
		})
	}
}

func TestRestoreRefusesNewerStates(t *testing.T) {
	t.Parallel()
	m, err := New(Config{Policy: Starvation, Min: 1, Max: 8})
	if err != nil {
		t.Fatal(err)
	}
	s := m.State
	s.Version = StateVersion + 1
	if _, err := Restore(s); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("got %v", err)
	}
}

// A window knows the least and the greatest of what it was told in its time, and keeps no more than it must.
func TestWindow(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var least, greatest window
	numbers := []int{5, 3, 8, 8, 2, 9, 4, 4, 6, 1, 7, 3, 3, 3}
	const length = 3
	for i, n := range numbers {
		now := at.Add(time.Duration(i) * time.Second)
		low, _ := least.least(now, n, length*time.Second)
		high, covered := greatest.greatest(now, n, length*time.Second)
		wantLow, wantHigh := n, n
		for _, other := range numbers[max(0, i-length):i] {
			wantLow, wantHigh = min(wantLow, other), max(wantHigh, other)
		}
		if low != wantLow || high != wantHigh || covered != (i >= length) {
			t.Errorf("after %v: %d to %d, covered %v; want %d to %d", numbers[:i+1], low, high, covered, wantLow, wantHigh)
		}
	}
}
