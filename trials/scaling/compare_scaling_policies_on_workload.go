package trial

import (
	"context"
	"iter"
	"slices"
)

// Comparison is one workload with all policies.
type Comparison struct {
	Seed      uint64
	Drift     Drift
	Latency   bool
	ColdStart float64         // s
	Fixed     map[int]Summary // by number of engines
	From      map[int]Scaled  // fleets that scale, by their least number of engines, with which they begin
}

// Scaled is the policies that scale, with the same bounds.
type Scaled struct {
	Queue      map[int]Summary // by target
	Starvation *Summary        // nil: it is not played yet
	Course     Course          // of starvation
}

// Summary is what is compared of an outcome.
type Summary struct {
	Engines     int     // of a fixed fleet; of others the most alive at once
	Sec, Hours  float64 // total time, and engine-hours
	Starved     float64
	Changes     int
	Lost        int
	MeanEngines float64
	FirstSec    float64 // until the first step is done
}

func (o *Outcome) summary() Summary {
	s := Summary{Engines: o.Most, Sec: o.Sec, Hours: o.EngineHours, Starved: o.Starved, Changes: len(o.Decisions),
		Lost: o.Lost, FirstSec: o.FirstSec}
	s.MeanEngines = o.EngineSec / o.Sec
	return s
}

var (
	// Fleets are the fixed fleets that every workload is tried with.
	Fleets = []int{1, 2, 3, 4, 6, 8, Most}
	// Leasts are the least numbers of engines that fleets that scale are tried with: one, and the two of the notes this
	// project grew out of.
	Leasts = []int{1, 2}
	// Targets are the requests for each engine that the queue policy is tried with. The least and the greatest are the
	// settings of those notes. The least is a little less than the engine's slots, as it should be.
	Targets = []int{8, 16, 32, 64, 100, 200, 400}
)

// PlayAgain forgets what starvation did.
func (c *Comparison) PlayAgain() {
	for least, scaled := range c.From {
		scaled.Starvation = nil
		c.From[least] = scaled
	}
}

// Whole reports whether everything is played.
func (c *Comparison) Whole() bool {
	for range c.fleets() {
		return false
	}
	for _, least := range Leasts {
		if scaled := c.From[least]; scaled.Starvation == nil || len(scaled.Queue) < len(Targets) {
			return false
		}
	}
	return true
}

// NewComparison is one of which nothing is played yet.
func (w *Workload) NewComparison() Comparison {
	return Comparison{Seed: w.Seed, Drift: w.Drift, Latency: w.Latency, ColdStart: w.ColdStart.Seconds(),
		Fixed: map[int]Summary{}, From: map[int]Scaled{}}
}

// Compare plays what is not played yet.
func (w *Workload) Compare(ctx context.Context, c *Comparison) error {
	for engines := range c.fleets() {
		o, err := w.Play(ctx, FixedFleet(engines), nil)
		if err != nil {
			return err
		}
		c.Fixed[engines] = o.summary()
	}
	for _, least := range Leasts {
		scaled := c.From[least]
		if err := w.queue(ctx, c.Fixed[least], least, &scaled); err != nil {
			return err
		}
		if scaled.Starvation == nil {
			if err := w.starvation(ctx, least, &scaled); err != nil {
				return err
			}
		}
		c.From[least] = scaled
	}
	return nil
}

// queue plays the queue policy with every target. A fleet that did not grow beyond its least number of engines does
// not with a higher target, either.
func (w *Workload) queue(ctx context.Context, fixed Summary, least int, into *Scaled) error {
	if into.Queue == nil {
		into.Queue = map[int]Summary{}
	}
	grows := true
	for _, target := range Targets {
		s, played := into.Queue[target]
		if !played && grows {
			o, err := w.Play(ctx, QueueDriven(least, target), nil)
			if err != nil {
				return err
			}
			s = o.summary()
		} else if !played {
			s = fixed
		}
		into.Queue[target] = s
		grows = grows && s.Engines > least
	}
	return nil
}

func (w *Workload) starvation(ctx context.Context, least int, into *Scaled) error {
	watch := watcher{}
	o, err := w.Play(ctx, StarvationDriven(least), watch.decided)
	s := o.summary()
	into.Starvation, into.Course = &s, watch.course
	return err
}

// fleets is the fixed fleets that are not played yet: Fleets, the largest first, and then those between the smallest
// that is as fast as the largest and the next smaller one, by halves.
func (c *Comparison) fleets() iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, engines := range slices.Backward(Fleets) {
			if _, played := c.Fixed[engines]; !played && !yield(engines) {
				return
			}
		}
		for {
			best, slower := c.Best().Engines, 0
			for engines := range c.Fixed {
				if engines < best {
					slower = max(slower, engines)
				}
			}
			if best-slower < 2 || !yield((best+slower)/2) {
				return
			}
		}
	}
}
