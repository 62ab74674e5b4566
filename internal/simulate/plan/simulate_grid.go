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
	var began time.Time
	if o.Now != nil {
		began = o.Now()
	}
	done := 0
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
			done++
			o.tell(done, len(settings), began)
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

// tell says how far the plan is, and how long the rest takes if it takes as long as what is done.
func (o Options) tell(done, of int, began time.Time) {
	if o.Tell == nil {
		return
	}
	p := Progress{Done: done, Of: of}
	if o.Now != nil {
		p.Left = (o.Now().Sub(began) * time.Duration(of-done) / time.Duration(done)).Round(time.Second)
	}
	o.Tell(p)
}
