package trial

import (
	"context"

	"github.com/millrace/millrace/internal/scaling"
)

// Comparison is one workload with all policies.
type Comparison struct {
	Seed      uint64
	Drift     Drift
	Latency   bool
	ColdStart float64 // s
	// Fastest is the largest fixed fleet, and Best the smallest that is as fast: its total time is at most Near longer.
	Fastest, Best Summary
	Queue         map[int]Summary // by target
	Starvation    Summary
	Course        Course
}

// Summary is what is compared of an outcome.
type Summary struct {
	Engines     int     // of a fixed fleet; of others the most alive at once
	Sec, Hours  float64 // total time, and engine-hours
	Starved     float64
	Changes     int
	Lost        int
	MeanEngines float64
}

func (o *Outcome) summary() Summary {
	s := Summary{Engines: o.Most, Sec: o.Sec, Hours: o.EngineHours, Starved: o.Starved, Changes: len(o.Decisions),
		Lost: o.Lost}
	s.MeanEngines = o.EngineSec / o.Sec
	return s
}

// Near is by how much a fleet's total time may exceed the shortest to be as good, as for a plan.
const Near = 0.02

// Targets are the requests for each engine that the queue policy is tried with: both settings of the notes this project
// grew out of. The smaller one is a little less than the engine's slots, as it should be.
var Targets = []int{8, 400}

// Baselines plays the fixed fleets and the queue policy. More engines of a fixed fleet never make a run longer, apart
// from chance, so that the smallest fleet that is as fast is found by halves.
func (w *Workload) Baselines(ctx context.Context) (Comparison, error) {
	c := Comparison{Seed: w.Seed, Drift: w.Drift, Latency: w.Latency, ColdStart: w.ColdStart.Seconds(),
		Queue: map[int]Summary{}}
	fixed := func(n int) (Summary, error) {
		o, err := w.Play(ctx, FixedFleet(n), nil)
		return o.summary(), err
	}
	var err error
	if c.Fastest, err = fixed(Most); err != nil {
		return c, err
	}
	c.Best = c.Fastest
	for low, high := 0, Most; high-low > 1; {
		middle := (low + high) / 2
		s, err := fixed(middle)
		if err != nil {
			return c, err
		}
		if s.Sec <= c.Fastest.Sec*(1+Near) {
			c.Best, high = s, middle
		} else {
			low = middle
		}
	}
	for _, target := range Targets {
		o, err := w.Play(ctx, QueueDriven(target), nil)
		if err != nil {
			return c, err
		}
		c.Queue[target] = o.summary()
	}
	return c, nil
}

// Compare plays everything.
func (w *Workload) Compare(ctx context.Context) (Comparison, error) {
	c, err := w.Baselines(ctx)
	if err != nil {
		return c, err
	}
	return c, w.CompareStarvation(ctx, &c)
}

// CompareStarvation plays starvation alone.
func (w *Workload) CompareStarvation(ctx context.Context, c *Comparison) error {
	watch := watcher{}
	o, err := w.Play(ctx, StarvationDriven(), watch.decided)
	c.Starvation, c.Course = o.summary(), watch.course
	return err
}

// Course is what the laws are held against: of all changes of one workload.
type Course struct {
	Purchases int // engines were bought, the wake at the beginning apart
	// Unfounded is the purchases of which the run was not capacity-bound by its own terms, and First those before the
	// first step, when the trainer waited for it.
	Unfounded, First int
	GivenBack        int
	Undone, Restored int
	// Flaps is the changes that followed one of the same direction within a cold start, as long as was known then.
	Flaps int
	// Shortest is the shortest time between two changes, in cold starts; 0: there were no two.
	Shortest float64
}

type watcher struct {
	course Course
	last   map[bool]scaling.Decision
	newest *scaling.Decision
}

// decided hears of a sample and what came of it.
func (w *watcher) decided(s scaling.Sample, commands []scaling.Command) {
	for _, c := range commands {
		change, ok := c.(scaling.Change)
		if !ok {
			continue
		}
		w.changed(&s, change.Decision)
	}
}

func (w *watcher) changed(s *scaling.Sample, d scaling.Decision) {
	cold := s.ColdStartSec
	up := d.To > d.From
	if w.last == nil {
		w.last = map[bool]scaling.Decision{}
	}
	if before, ok := w.last[up]; ok && d.At.Sub(before.At).Seconds() < cold {
		w.course.Flaps++
	}
	if w.newest != nil && cold > 0 {
		if apart := d.At.Sub(w.newest.At).Seconds() / cold; w.course.Shortest == 0 || apart < w.course.Shortest {
			w.course.Shortest = apart
		}
	}
	w.last[up], w.newest = d, &d
	run := &s.Runs[0]
	switch d.Code {
	case scaling.Buys:
		w.course.Purchases++
		if run.C <= 0 {
			w.course.First++
			if !run.Waits || s.SlotShare < 0.5 {
				w.course.Unfounded++
			}
		} else if run.P <= max(run.C, run.RD) {
			w.course.Unfounded++
		}
	case scaling.GivesBack:
		w.course.GivenBack++
	case scaling.Undone:
		w.course.Undone++
	case scaling.Restored:
		w.course.Restored++
	case scaling.Configured, scaling.QueueUp, scaling.QueueDown, scaling.Idles, scaling.Wakes:
	}
}
