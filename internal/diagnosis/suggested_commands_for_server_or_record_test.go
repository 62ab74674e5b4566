package diagnosis

import (
	"testing"

	"github.com/millrace/millrace/internal/rollout/runspec"
)

// Where the fleet is scaled, more engines come by its bounds.
func TestEnginesCommand(t *testing.T) {
	t.Parallel()
	scaled := func(change func(*ScalingNow)) *ScalingNow {
		now := &ScalingNow{Wanted: 2, Max: 4, Most: 1024, Affordable: 1024}
		change(now)
		return now
	}
	for _, tt := range []struct {
		name    string
		scaling *ScalingNow
		bought  int // max_engines of the run
		engines int
		want    string
	}{
		{"nobody scales", nil, 0, 4, "millrace engine add URL"},
		{"as many are wanted", scaled(func(now *ScalingNow) { now.Wanted = 4 }), 0, 4, "millrace engine scaling"},
		{"above max", scaled(func(*ScalingNow) {}), 0, 5, "millrace engine scaling max=5"},
		{"above what any fleet may have", scaled(func(now *ScalingNow) { now.Max = 600 }), 0, 1200, ""},
		{"above the budget", scaled(func(now *ScalingNow) { now.Affordable, now.Price = 2, 1.25 }), 0, 4,
			"millrace engine scaling budget_per_hour=5.00"},
		{"above max and budget", scaled(func(now *ScalingNow) { now.Affordable, now.Price = 2, 1.25 }), 0, 6,
			"millrace engine scaling max=6 budget_per_hour=7.50"},
		{"above what is bought for the run", scaled(func(*ScalingNow) {}), 2, 4, "millrace run set demo max_engines=4"},
		{"within all bounds", scaled(func(*ScalingNow) {}), 0, 4, "millrace engine scaling min=4"},
		{"a fixed number", scaled(func(now *ScalingNow) { now.Fixed = true }), 0, 5,
			"millrace engine scaling max=5 engines=5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := &measurements{in: Input{Spec: runspec.Spec{Name: "demo", MaxEngines: tt.bought}, Scaling: tt.scaling}}
			if got := m.enginesCommand(tt.engines); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
