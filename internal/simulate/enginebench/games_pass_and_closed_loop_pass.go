package enginebench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/internal/engine/dispatch/live"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// gamesPass is what a fleet did while games were played on it.
type gamesPass struct {
	windows    []window            // by engine
	recordings []*requestRecording // by engine
	marks      []recordingPart     // by engine: the part of its recording that was sent in the window
	calls      int64               // answered in the window
	sec        float64
	played     played // from the start to the end of the window
}

// playGames plays games on the fleet and watches it for a window, once the first groups have ended and games are in
// all phases.
func playGames(ctx context.Context, cfg Config, f *Fleet, pass int) (gamesPass, error) {
	p := gamesPass{}
	for _, e := range f.Engines {
		p.recordings = append(p.recordings, &requestRecording{engine: e, pass: pass})
	}
	ctx, cancel := context.WithCancel(ctx)
	d := newDispatcher(f, p.recordings)
	w, err := newWorkload(cfg, f.Model, d)
	if err != nil {
		cancel()
		return p, err
	}
	var g errgroup.Group
	g.Go(func() error { return d.Run(ctx) })
	broken := make(chan error, 1)
	g.Go(func() error {
		err := w.keep(ctx, cfg.inPlay(len(f.Engines)))
		broken <- err
		return err
	})
	d.SetRules(RunName, cfg.Rules)
	d.SetEngines(f.Listed(cfg.Concurrency))
	err = p.watch(ctx, cfg, f, w, broken)
	cancel()
	return p, errors.Join(err, g.Wait())
}

// newDispatcher is the service's dispatcher with the recordings before the engines.
func newDispatcher(f *Fleet, recordings []*requestRecording) *live.Dispatcher {
	clients := map[rollout.EngineID]live.Engine{}
	for i, e := range f.Engines {
		clients[e.ID] = recordings[i]
	}
	return live.New(live.Config{Clients: func(e enginestate.Engine) live.Engine {
		return clients[e.ID]
	}, Worker: string(RunName)})
}

func (p *gamesPass) watch(ctx context.Context, cfg Config, f *Fleet, w *workload, broken <-chan error) error {
	for range 1 + len(f.Engines)*cfg.Concurrency/perGroup {
		select {
		case <-w.groups:
		case err := <-broken:
			return ended(ctx, err)
		}
	}
	from, calls := p.lengths(), w.played().calls
	before, err := f.readAll(ctx)
	if err != nil {
		return err
	}
	select {
	case <-time.After(cfg.Window):
	case err := <-broken:
		return ended(ctx, err)
	}
	after, err := f.readAll(ctx)
	if err != nil {
		return err
	}
	p.played = w.played()
	p.calls, p.sec = p.played.calls-calls, after[0].at.Sub(before[0].at).Seconds()
	for i, to := range p.lengths() {
		if to == from[i] {
			return fmt.Errorf("engine %s was sent nothing in %v: measure for longer", f.Engines[i].url, cfg.Window)
		}
		p.marks = append(p.marks, recordingPart{from[i], to})
		p.windows = append(p.windows, between(before[i], after[i]))
	}
	return nil
}

// ended is why a pass is over before its time.
func ended(ctx context.Context, err error) error {
	if err == nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("play games: %w", err)
}

func (p *gamesPass) lengths() []int {
	n := make([]int, len(p.recordings))
	for i, t := range p.recordings {
		n[i] = t.length()
	}
	return n
}

// closedLoop sends the recordings again, flat out, and returns what each engine did along its part.
func closedLoop(ctx context.Context, cfg Config, p gamesPass, pass int) ([]window, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		engine int
		window window
	}
	results := make(chan result, len(p.recordings)) // each engine gives one, so none waits for us
	g, replaying := errgroup.WithContext(ctx)
	for i, t := range p.recordings {
		g.Go(func() error {
			return t.replay(replaying, cfg.Concurrency, pass, p.marks[i], func(w window) { results <- result{i, w} })
		})
	}
	windows := make([]window, len(p.recordings))
	for range windows {
		select {
		case r := <-results:
			windows[r.engine] = r.window
		case <-replaying.Done():
			return nil, fmt.Errorf("closed loop: %w", g.Wait())
		}
	}
	cancel()
	_ = g.Wait() // the calls that were cut off
	return windows, nil
}
