package runhistory

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// Level is a sample of a run's buffer.
type Level struct {
	At                               time.Time
	Queued, InFlight, Ready, Claimed int64
	Target                           int64 // groups that the run wants outstanding
}

// Load is a sample of one engine, by its own counters.
type Load struct {
	At                      time.Time
	Engine                  rollout.EngineID
	InputTPS, OutputTPS     float64
	Running, Waiting        float64 // requests in the batch, and in the engine's own queue
	KVShare, PrefixHitShare float64
	QueueSec, RequestSec    float64 // in the dispatcher, and in the engine
	Preemptions             float64
}

// The bounds of samples: the latest are kept.
const (
	mostLevels  = 20_000
	mostLoads   = 20_000
	samplesPage = 2_000
)

// samplesOf is the kinds of samples that are read of a run, and of the fleet.
func samplesOf(run rollout.RunName) string {
	if run == "" {
		return telemetry.KindOf(telemetry.EngineSample{})
	}
	return telemetry.KindOf(telemetry.BufferLevel{})
}

// addSample takes one more sample, if it is one.
func (f *Facts) addSample(e telemetry.Event) {
	if b, ok := e.Body.(telemetry.BufferLevel); ok && b.WindowSec > 0 { // without, it tells of a wait besides a window's
		c := b.Counts
		f.Levels = append(f.Levels, Level{At: e.At, Queued: c.Queued, InFlight: c.InFlight, Ready: c.Ready,
			Claimed: c.Claimed, Target: b.Target})
	}
	if b, ok := e.Body.(telemetry.EngineSample); ok {
		l := b.Load
		f.Loads = append(f.Loads, Load{At: e.At, Engine: e.Engine, InputTPS: l.InputTPS, OutputTPS: l.OutputTPS,
			Running: l.Running, Waiting: l.Waiting, KVShare: l.KVUsage, PrefixHitShare: l.PrefixHitShare,
			QueueSec: l.QueueSec, RequestSec: l.RequestSec, Preemptions: l.Preemptions})
	}
}

// readSamples adds the samples that came since. Of those that were gone before anybody looked, nothing is known.
func (h *History) readSamples(ctx context.Context, one *run) error {
	for {
		h.mu.Lock()
		after, facts := one.sampled, one.view.Facts
		h.mu.Unlock()
		page, next, more, err := h.events.Samples(ctx, one.id, after, samplesPage, samplesOf(one.id))
		if err != nil {
			return err
		}
		for _, s := range page {
			if event, err := s.Event(); err == nil { // else of another version
				facts.addSample(event)
			}
		}
		facts.Levels, facts.Loads = latest(facts.Levels, mostLevels), latest(facts.Loads, mostLoads)
		h.mu.Lock()
		one.sampled, one.view.Facts = next, facts
		h.mu.Unlock()
		if !more {
			return nil
		}
	}
}
