package steprecord

import (
	"math"
	"testing"
)

// Every game asks engines for 20 s, and its environment takes 10 s.
func TestUnqueuedGames(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		of   GroupView
		want float64
	}{
		{"nothing is known", GroupView{}, 0},
		{"it did not wait", GroupView{EpisodeSec: []float64{31}, ModelSec: []float64{20}, QueueSec: []float64{0},
			EnvSec: []float64{10}}, 31},
		{"it waited in later phases", GroupView{EpisodeSec: []float64{81}, ModelSec: []float64{20},
			QueueSec: []float64{50}, EnvSec: []float64{10}}, 31},
		{"it waited before its first answer, which is before it began", GroupView{EpisodeSec: []float64{31},
			ModelSec: []float64{20}, QueueSec: []float64{100}, EnvSec: []float64{10}}, 30},
		{"only its length is recorded", GroupView{EpisodeSec: []float64{31}}, 31},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := tt.of.UnqueuedSec(0); math.Abs(got-tt.want) > 1e-9 {
				t.Errorf("%v s, want %v s", got, tt.want)
			}
		})
	}
}
