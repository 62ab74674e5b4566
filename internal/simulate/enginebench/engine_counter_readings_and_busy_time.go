package enginebench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/simulate/enginesim"
)

// modelTime reads a simulated engine's own measure of its time, which is exact.
func modelTime(e *enginesim.Engine) func(context.Context) (float64, float64, error) {
	return func(ctx context.Context) (float64, float64, error) {
		s, err := e.Stats(ctx)
		return s.Busy, s.Elapsed, err
	}
}

// sampler stands in for the measure of its time that a real engine does not give: it looks often whether requests run.
type sampler struct {
	mu         sync.Mutex
	busySec    float64
	elapsedSec float64
}

const sampleEvery = 200 * time.Millisecond

func (s *sampler) run(ctx context.Context, client *vllm.Client) {
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		m, err := client.Metrics(ctx)
		if err != nil {
			continue // the next look may succeed; no look, no time
		}
		s.mu.Lock()
		s.elapsedSec += sampleEvery.Seconds()
		if m.Running > 0 {
			s.busySec += sampleEvery.Seconds()
		}
		s.mu.Unlock()
	}
}

func (s *sampler) busy(context.Context) (float64, float64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busySec, s.elapsedSec, nil
}

// reading is an engine's counters at a moment.
type reading struct {
	at            time.Time
	input, output float64 // tokens
	cached        float64 // of the input, found in the prefix cache
	busy, of      float64 // seconds, on a clock of the engine's own
}

func (e *Engine) read(ctx context.Context) (reading, error) {
	m, err := e.Client.Metrics(ctx)
	if err != nil {
		return reading{}, fmt.Errorf("engine %s: %w", e.url, err)
	}
	r := reading{at: time.Now(), input: m.PromptTokens, output: m.GenerationTokens, cached: m.PrefixHits}
	if r.busy, r.of, err = e.busy(ctx); err != nil {
		return reading{}, fmt.Errorf("engine %s: %w", e.url, err)
	}
	return r, nil
}

// readAll reads all engines at about the same moment.
func (f *Fleet) readAll(ctx context.Context) ([]reading, error) {
	all := make([]reading, len(f.Engines))
	g, ctx := errgroup.WithContext(ctx)
	for i, e := range f.Engines {
		g.Go(func() (err error) {
			all[i], err = e.read(ctx)
			return err
		})
	}
	return all, g.Wait()
}
