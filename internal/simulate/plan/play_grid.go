package plan

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// playGrid simulates every setting, several at once. The cells are in the order of the grid, whichever was done first;
// interrupted, those that are not done are missing.
func playGrid(ctx context.Context, r Request, o Options) ([]Cell, error) {
	settings := r.settings()
	progress := newTally(o, settings)
	cells, played := make([]Cell, len(settings)), make([]bool, len(settings))
	var lock sync.Mutex
	var workers errgroup.Group
	workers.SetLimit(max(1, o.Workers))
	for _, i := range r.order(settings) {
		workers.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			cell, err := playCell(ctx, r, settings[i], o.Simulate)
			if err != nil {
				return err
			}
			lock.Lock()
			defer lock.Unlock()
			cells[i], played[i] = cell, true
			progress.played(i)
			return nil
		})
	}
	err := workers.Wait()
	out := make([]Cell, 0, len(cells))
	for i, c := range cells {
		if played[i] {
			out = append(out, c)
		}
	}
	return out, err
}

// order is that in which the settings are played: the run's own first, then those that differ from it the least, so
// that an interrupted plan knows about what is near.
func (r Request) order(settings []Setting) []int {
	own := r.own()
	order := make([]int, len(settings))
	for i := range order {
		order[i] = i
	}
	abs := func(n int) int { return max(n, -n) }
	distance := func(s Setting) int {
		return abs(s.Engines-own.Engines) + abs(s.Depth-own.Depth) + abs(s.Groups-own.Groups) + abs(s.Samples-own.Samples)
	}
	slices.SortStableFunc(order, func(a, b int) int { return distance(settings[a]) - distance(settings[b]) })
	return order
}

// tally counts what is done, and estimates what is left by the games that are still to be played.
type tally struct {
	options     Options
	began       time.Time
	cost        []float64 // of each setting, in games
	done        int
	spent, left float64
}

func newTally(o Options, settings []Setting) *tally {
	t := &tally{options: o}
	if o.Now != nil {
		t.began = o.Now()
	}
	for _, s := range settings {
		games := float64(length(s.Depth) * s.Groups * s.Samples)
		t.cost = append(t.cost, games)
		t.left += games
	}
	return t
}

func (t *tally) played(i int) {
	t.done++
	t.spent += t.cost[i]
	t.left -= t.cost[i]
	if t.options.Tell == nil {
		return
	}
	p := Progress{Done: t.done, Of: len(t.cost)}
	if t.options.Now != nil {
		p.Passed = t.options.Now().Sub(t.began)
		p.Left = time.Duration(float64(p.Passed) * max(0, t.left) / t.spent).Round(time.Second)
	}
	t.options.Tell(p)
}
