package diagnosis

import (
	"slices"
	"testing"
)

// What scaling did and does, in words.
func TestScalingText(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		acts     []ScalingAct
		now      *ScalingNow
		capacity bool
		want     []string
	}{
		{"nobody scales", nil, nil, true, nil},
		{"a purchase that was measured", []ScalingAct{{From: 1, To: 3, BeforeSec: 84, PredictedSec: 48, MeasuredSec: 50}},
			nil, false, []string{"scaling bought 2 engines, steps became 40 % shorter (84 s before, 50 s measured, " +
				"48 s predicted)"}},
		{"one that was not yet", []ScalingAct{{From: 1, To: 2, BeforeSec: 84, PredictedSec: 48}}, &ScalingNow{Wanted: 2,
			Max: 4, Most: 1024, Affordable: 1024, Starting: 1}, true,
			[]string{"scaling bought 1 engine, steps are predicted to take 48 s", "scaling waits for 1 engine to start"}},
		{"one in vain, taken back", []ScalingAct{{From: 1, To: 2, BeforeSec: 50, PredictedSec: 30, MeasuredSec: 50},
			{From: 2, To: 1, Undone: true, Reason: "no shorter"}}, nil, false,
			[]string{"scaling bought 1 engine, steps stayed as long (50 s before, 50 s measured, 30 s predicted)",
				"scaling took back 1 engine: no shorter"}},
		{"at max", nil, &ScalingNow{Wanted: 4, Max: 4, Most: 1024, Affordable: 1024}, true,
			[]string{"capacity-bound, and scaling is at its max of 4 engines: raise it: millrace engine scaling max=8"}},
		{"at a max that may hardly be raised", nil, &ScalingNow{Wanted: 600, Max: 600, Most: 1024, Affordable: 1024}, true,
			[]string{"capacity-bound, and scaling is at its max of 600 engines: raise it: millrace engine scaling max=1024"}},
		{"at a max that cannot be raised", nil, &ScalingNow{Wanted: 1024, Max: 1024, Most: 1024, Affordable: 1024}, true,
			[]string{"capacity-bound, and scaling is at its max of 1024 engines, the most that a fleet may have"}},
		{"the budget ends before", nil, &ScalingNow{Wanted: 2, Max: 4, Most: 1024, Affordable: 2, Price: 1.1}, true, []string{
			"capacity-bound, and the budget of scaling pays for 2 engines: raise it: " +
				"millrace engine scaling budget_per_hour=4.40"}},
		{"at max, and enough", nil, &ScalingNow{Wanted: 4, Max: 4, Most: 1024, Affordable: 1024, Why: "run needs 4"}, false,
			[]string{"scaling wants 4 engines: run needs 4"}},
		{"the provider fails", nil, &ScalingNow{Wanted: 2, Max: 4, Most: 1024, Affordable: 1024, Trouble: "quota"}, true,
			[]string{"scaling wants 2 engines, and the provider does not bring them: quota"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := scalingText(nil, &Input{ScalingActs: tt.acts, Scaling: tt.now}, tt.capacity)
			if !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}
