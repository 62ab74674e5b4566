package diagnosis

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/rollout/runspec"
)

// uniform is a model of equal groups: C, P and R seconds, 16 groups a step, all of depth prefilled. One engine takes so
// many of them at a time that it works off a batch in P.
func uniform(c, p, r float64, depth int) replayModel {
	const take = 16
	r = max(r, p/take)
	return replayModel{
		groups:  []replayGroup{{alone: r, held: p / take / r, games: 1}},
		steps:   []replayStep{{compute: c, depth: depth, take: take}},
		engines: 1, limit: 1, places: math.Inf(1), first: depth * take, stalenessLimit: runspec.MaxDepth,
	}
}

// bounded limits a model by staleness: the prefill, too.
func bounded(p replayModel, stale int) replayModel {
	p.stalenessLimit = stale
	p.first = min(p.first, (stale+1)*p.steps[0].take)
	return p
}

func TestReplayTables(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		model replayModel
		walls []float64
		ready []float64 // batches ready at each take
	}{
		{"P=300 D=1", uniform(150, 300, 0, 1), []float64{150, 300, 300, 300}, []float64{1, 1, 1}},
		{"P=300 D=2", uniform(150, 300, 0, 2), []float64{150, 150, 150, 300, 300, 300}, []float64{2, 1.5, 1, 1}},
		{"P=300 D=3", uniform(150, 300, 0, 3), []float64{150, 150, 150, 150, 150, 300, 300},
			[]float64{3, 2.5, 2, 1.5, 1, 1}},
		{"P=300 D=4", uniform(150, 300, 0, 4), []float64{150, 150, 150, 150, 150, 150, 150, 300, 300},
			[]float64{4, 3.5, 3, 2.5, 2, 1.5, 1}},
		{"P=280 D=2", uniform(150, 280, 0, 2), []float64{150, 150, 150, 260, 280, 280}, nil},
		{"P=310 D=2", uniform(150, 310, 0, 2), []float64{150, 150, 160, 310, 310}, nil},
		{"P=250 D=2", uniform(150, 250, 0, 2), []float64{150, 150, 150, 200, 250, 250}, nil},
		{"P=150 D=2", uniform(150, 150, 0, 2), []float64{150, 150, 150, 150, 150}, nil},
		{"log-probs in rollouts", uniform(100, 330, 0, 2), []float64{100, 100, 230, 330, 330}, nil},
		{"R=600 D=2", uniform(150, 1, 600, 2), []float64{150, 150, 450, 150, 450, 150}, nil},
		{"R=600 D=3", uniform(150, 1, 600, 3), []float64{150, 150, 150, 300, 150, 150, 300}, nil},
		{"R=600 D=4", uniform(150, 1, 600, 4), []float64{150, 150, 150, 150, 150}, nil},
		{"P=300 R=600 D=2", uniform(150, 300, 600, 2), []float64{150, 150, 450, 150, 450}, nil},
		{"R=600 D=4 max_staleness=1", bounded(uniform(150, 1, 600, 4), 1), []float64{150, 150, 600, 150, 600, 150},
			[]float64{2, 1, 1, 1}},
		{"R=600 D=4 max_staleness=0", bounded(uniform(150, 1, 600, 4), 0), []float64{150, 750, 750, 750}, []float64{1, 1, 1}},
		{"P=300 D=4 max_staleness=0", bounded(uniform(150, 300, 0, 4), 0), []float64{150, 450, 450, 450}, nil},
		{"R=600 D=2 max_staleness=2", bounded(uniform(150, 1, 600, 2), 2), []float64{150, 150, 450, 150, 450, 150}, nil},
		{"one batch of prefill", func() replayModel { p := uniform(150, 300, 0, 3); p.first = 16; return p }(),
			[]float64{150, 300, 300, 300}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			replayed := tt.model.replay(len(tt.walls))
			for k, want := range tt.walls {
				if math.Abs(replayed[k].wall-want) > 1e-6 {
					t.Errorf("step %d takes %v s, want %v", k, replayed[k].wall, want)
				}
			}
			for k, want := range tt.ready {
				if math.Abs(replayed[k].ready-want) > 1e-6 {
					t.Errorf("%v batches are ready at step %d, want %v", replayed[k].ready, k, want)
				}
			}
		})
	}
}

// The replay gives what the theory says: the steady step max(C, P, R/D), the first slow step at
// floor((D-1)P/(P-C)) + 1, and a total that depth does not change.
func TestReplayLaws(t *testing.T) {
	t.Parallel()
	for _, c := range []float64{40, 150} {
		for _, ratio := range []float64{0.5, 0.9, 1.3, 1.6, 2.1, 3.3} {
			for _, latency := range []float64{0.2, 1.7, 4.4} {
				for depth := 1; depth <= 6; depth++ {
					p, r := c*ratio, c*latency
					name := fmt.Sprintf("C=%v P=%v R=%v D=%d", c, p, r, depth)
					pl := uniform(c, p, r, depth)
					replayed := pl.replay(240)
					if depth == 1 {
						r = max(r, p/16) // one batch at a time: there is nothing to fill its last wave with
					}
					got, want := steadyOver(replayed, depth), max(c, p, r/float64(depth))
					if got < 0.99*want || got > 1.01*max(c, p+r/float64(depth)) {
						t.Errorf("%s: steady step %v, want %v", name, got, want)
					}
					if p <= c || r > p || depth == 1 {
						continue
					}
					first := slices.IndexFunc(replayed, func(s replayedStep) bool { return s.wait > 1e-9 })
					if want := int(float64(depth-1)*p/(p-c)+1e-9) + 1; first != want && first != want-1 {
						t.Errorf("%s: first slow step %d, want %d", name, first, want)
					}
					total := float64(depth) * p // the prefill
					for _, s := range replayed {
						total += s.wall
					}
					if want := 240*p + c; math.Abs(total-want) > 2e-3*want {
						t.Errorf("%s: 240 steps take %v s, want %v", name, total, want)
					}
				}
			}
		}
	}
}

// steadyOver is the mean of whole cycles of depth steps at the end.
func steadyOver(replayed []replayedStep, depth int) float64 {
	count := 96 / depth * depth
	sum := 0.0
	for _, s := range replayed[len(replayed)-count:] {
		sum += s.wall
	}
	return sum / float64(count)
}

// Engines that come or go change the pace from then on.
func TestReplayCapacityWindows(t *testing.T) {
	t.Parallel()
	p := uniform(150, 300, 18.75, 2)
	p.windows, p.engines = []engineWindow{{600, 0.5}, {1200, 1}}, 2
	// Two batches are 600 s of work: 300 done by 600 s, the rest by 900 s.
	replayed := p.replay(8)
	if replayed[0].ready != 2 || math.Abs(replayed[7].wall-150) > 1e-6 {
		t.Errorf("engines that double twice end with steps of %v s; want 150", replayed[7].wall)
	}
}
