package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/internal/dispatch/live"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/vllm"
)

// sweepTrial is what one trial of a setting brought. Seconds are of the engines' clock.
type sweepTrial struct {
	latencies []float64 // of every request, from its submission to its answer; ascending
	makespan  float64   // from the first submission to the last answer
	output    int       // tokens
	calls     int64     // to engines
	position  int       // when it was made, counted over all trials
}

// Sweep measures every setting several times through the service's own dispatcher and client. Settings take turns in
// a new random order each round, so that what changes with time, such as a processor that grows warm, befalls them
// all alike.
func Sweep(ctx context.Context, cfg SweepConfig) (SweepResult, error) {
	if err := cfg.Validate(); err != nil {
		return SweepResult{}, err
	}
	f, err := openFleet(ctx, Config{URLs: cfg.URLs, Model: cfg.Model, Speed: cfg.Speed},
		cmp.Or(len(cfg.URLs), cfg.Engines))
	if err != nil {
		return SweepResult{}, err
	}
	defer f.stop()
	cells := cfg.cells()
	trials := make([][]sweepTrial, len(cells))
	rng := rand.New(rand.NewPCG(cfg.Seed, 1))
	position := 0
	for round := range cfg.Warmup + cfg.Trials {
		if cfg.Say != nil {
			cfg.Say("round %d of %d: %d settings", round+1, cfg.Warmup+cfg.Trials, len(cells))
		}
		requests := cfg.requests(f.model, round)
		for _, i := range rng.Perm(len(cells)) {
			t, err := cells[i].measure(ctx, cfg, f, requests, position)
			if err != nil {
				return SweepResult{}, fmt.Errorf("window %v, at most %d in a batch: %w", cells[i].Window, cells[i].MaxBatch,
					err)
			}
			t.position = position
			position++
			if round >= cfg.Warmup {
				trials[i] = append(trials[i], t)
			}
		}
	}
	return newSweepResult(cfg, f.model, cells, trials), nil
}

// measure makes one trial.
func (s SweepCell) measure(ctx context.Context, cfg SweepConfig, f *fleet, requests []sweepRequest,
	pass int) (sweepTrial, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var calls atomic.Int64
	clients := map[rollout.EngineID]live.Engine{}
	for _, e := range f.engines {
		clients[e.id] = &countedCalls{e.client, &calls}
	}
	d := live.New(live.Config{Clients: func(e rollout.Engine) live.Engine { return clients[e.ID] },
		Worker: string(runName), Timeout: cfg.Timeout})
	var running errgroup.Group
	running.Go(func() error { return d.Run(ctx) })
	d.SetRules(runName, s.rules(cfg.Speed))
	d.SetEngines(f.listed(max(s.MaxBatch, cfg.Requests)))
	t, err := sendAll(ctx, d, requests, pass)
	cancel()
	if err = errors.Join(err, running.Wait()); err != nil {
		return t, err
	}
	t.calls = calls.Load()
	t.makespan *= cfg.Speed
	for i := range t.latencies {
		t.latencies[i] *= cfg.Speed
	}
	return t, nil
}

// sendAll submits the requests at their times and waits for all answers.
func sendAll(ctx context.Context, d *live.Dispatcher, requests []sweepRequest, pass int) (sweepTrial, error) {
	t := sweepTrial{latencies: make([]float64, len(requests))}
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	began := time.Now()
	for i, r := range requests {
		if wait := r.after - time.Since(began); wait > 0 {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return t, errors.Join(g.Wait(), ctx.Err())
			}
		}
		submitted := time.Now()
		g.Go(func() error {
			answer, err := d.Complete(ctx, inPass(r.Request, pass))
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			t.latencies[i] = time.Since(submitted).Seconds()
			t.output += len(answer.TokenIDs)
			return nil
		})
	}
	err := g.Wait()
	t.makespan = time.Since(began).Seconds()
	slices.Sort(t.latencies)
	return t, err
}

// countedCalls counts the calls that an engine gets.
type countedCalls struct {
	*vllm.Client
	calls *atomic.Int64
}

var _ live.Batcher = countedCalls{}

// Complete makes a call for one request.
func (c countedCalls) Complete(ctx context.Context, req rollout.Request) (rollout.Completion, error) {
	c.calls.Add(1)
	return c.Client.Complete(ctx, req)
}

// CompleteMany makes a call for several.
func (c countedCalls) CompleteMany(ctx context.Context, reqs []rollout.Request) ([]vllm.Answer, error) {
	c.calls.Add(1)
	return c.Client.CompleteMany(ctx, reqs)
}
