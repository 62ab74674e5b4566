package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/rollout"
)

// Validate reports everything that is wrong with a setup beside its spec, by the keys of its file.
func (s Setup) Validate() error { return s.Faults(settings.Reading{}).Err() }

// Faults is everything that is wrong with a setup beside its spec, of which package spec knows.
func (s Setup) Faults(reading settings.Reading) settings.Faults {
	faults := sections.Check(&s, reading)
	c := &checker{reading: settings.Reading{Given: reading.Given, Faults: slices.Concat(reading.Faults, faults)}}
	c.events(s.Fleet)
	c.trainer(s.Trainer)
	c.sources(s.Workload)
	c.sizes(&s)
	return append(faults, c.faults...)
}

// checker holds a setup to the rules that concern more than one key.
type checker struct {
	reading settings.Reading
	faults  settings.Faults
}

// fail reports a fault, unless the key has one already.
func (c *checker) fail(when bool, path, format string, args ...any) {
	if when && c.sound(path) {
		c.faults.Add(path, format, args...)
	}
}

func (c *checker) sound(path string) bool { return !c.reading.Faults.Has(path) && !c.faults.Has(path) }

func (c *checker) trainer(t Trainer) {
	c.fail(t.Checkpoint > 0 && t.Every == 0, "trainer.checkpoint",
		"%v for a checkpoint that is never written; give trainer.checkpoint_every, too", t.Checkpoint)
}

func (c *checker) sources(w Workload) {
	names := w.sources()
	c.fail(len(names) > 1, "workload", "%s exclude each other; keep one", strings.Join(names, " and "))
	c.fail(w.Recorded != nil && w.Recorded.File == "" && w.Recorded.Games == nil, "workload.recorded.file",
		"is missing: the run's record, as millrace run record writes it")
	c.fail(len(names) == 0, "workload", "says nothing of where games come from; give one of distribution, recorded, bots")
}

// Source is which source of games is given.
func (w Workload) Source() string { return strings.Join(w.sources(), ", ") }

// sources is which sources of games are given.
func (w Workload) sources() []string {
	var names []string
	for _, source := range []struct {
		name  string
		given bool
	}{{"distribution", w.Distribution != nil}, {"recorded", w.Recorded != nil}, {"bots", w.Bots != nil}} {
		if source.given {
			names = append(names, source.name)
		}
	}
	return names
}

// events holds the events to their order, and to engines that are there: a run without engines would never end.
func (c *checker) events(f Fleet) {
	serving := make([]bool, max(f.Engines, 0))
	for i := range serving {
		serving[i] = true
	}
	var last time.Duration
	var lastStep rollout.Step
	for i, e := range f.Events {
		path := fmt.Sprintf("fleet.events[%d]", i)
		if !c.sound("fleet.engines") || !c.sound(path) {
			return
		}
		c.fail(e.At > 0 && e.Step > 0, path+".step", "at %v or at step %d; keep one", e.At, e.Step)
		if e.Step == 0 {
			c.fail(time.Duration(e.At) < last, path+".at", "%v comes before %v of the event above; put events in order",
				e.At, rollout.Duration(last))
			last = max(last, time.Duration(e.At))
		} else {
			c.fail(e.Step < lastStep, path+".step", "%d comes before %d of an event above; put events in order", e.Step,
				lastStep)
			lastStep = max(lastStep, e.Step)
		}
		c.event(path, e, &serving)
	}
	if n := len(f.Events); n > 0 && !slices.Contains(serving, true) {
		c.fail(true, fmt.Sprintf("fleet.events[%d]", n-1), "takes the last engine away, and the run could never end; "+
			"keep one, or add one with kind: add")
	}
}

// event holds one event to the engines that serve when it happens, and says which serve after it.
func (c *checker) event(path string, e FleetEvent, serving *[]bool) {
	c.fail(e.Kind == SlowEngine && e.Factor == 0, path+".factor", "is missing: how many times as long the engine takes")
	c.fail(e.Kind != SlowEngine && e.Factor != 0, path+".factor", "is for kind: slow; this is %s", e.Kind)
	next := len(*serving)
	if e.Kind == AddEngine {
		c.fail(e.Engine != 0 && e.Engine != next, path+".engine", "%d: the next engine has the number %d; leave the key out",
			e.Engine, next)
		*serving = append(*serving, true)
		return
	}
	if e.Engine >= next {
		c.fail(true, path+".engine", "there is no engine %d then; the first is 0, the last %d", e.Engine, next-1)
		return
	}
	if !c.sound(path+".kind") || !c.sound(path+".engine") {
		return
	}
	c.fail(!(*serving)[e.Engine], path+".engine", "engine %d is gone by then", e.Engine)
	if e.Kind != SlowEngine {
		(*serving)[e.Engine] = false
	}
}
