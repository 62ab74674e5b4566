package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/simulate/sim"
)

// Conditions are what is asked to be otherwise in every setting: what if engines are lost, or slow?
type Conditions struct {
	Lose    []Loss
	Slow    []SlowEngine
	Publish *rollout.Duration // what the trainer takes to publish a version
}

// Loss is engines that die at one step and do not come back.
type Loss struct {
	Engines int
	Step    rollout.Step
}

// SlowEngine is an engine at a share of its speed.
type SlowEngine struct {
	Engine int // the first is 1
	Speed  float64
}

// defaultLossStep is when engines die if nothing is said of it: late enough for a steady step time before.
const defaultLossStep = 20

// ParseLoss reads N or N@STEP.
func ParseLoss(text string) (Loss, error) {
	count, at, stepGiven := strings.Cut(text, "@")
	l := Loss{Step: defaultLossStep}
	n, err := strconv.Atoi(strings.TrimSpace(count))
	if err != nil || n < 1 {
		return l, fmt.Errorf("%q: want how many engines are lost, and at which step, such as 1@20", text)
	}
	l.Engines = n
	if stepGiven {
		step, err := strconv.Atoi(strings.TrimSpace(at))
		if err != nil || step < 1 {
			return l, fmt.Errorf("%q: engines are lost at step 1 or later, such as 1@20", text)
		}
		l.Step = rollout.Step(step)
	}
	return l, nil
}

// ParseSlow reads ENGINE=SPEED.
func ParseSlow(text string) (SlowEngine, error) {
	engine, speed, ok := strings.Cut(text, "=")
	n, err := strconv.Atoi(strings.TrimSpace(engine))
	v, err2 := strconv.ParseFloat(strings.TrimSpace(speed), 64)
	switch {
	case !ok || err != nil || err2 != nil:
		return SlowEngine{}, fmt.Errorf("%q: want an engine and its share of the speed, such as 1=0.5", text)
	case n < 1:
		return SlowEngine{}, fmt.Errorf("%q: engines are numbered from 1", text)
	case !(v >= 0.001 && v <= 1000):
		return SlowEngine{}, fmt.Errorf("%q: a speed is between 0.001 and 1000 of the others'", text)
	}
	return SlowEngine{n, v}, nil
}

// Empty reports whether nothing is otherwise.
func (c Conditions) Empty() bool { return len(c.Lose) == 0 && len(c.Slow) == 0 && c.Publish == nil }

// mostLossStep bounds how long a simulation goes on before what is asked for happens.
const mostLossStep = 1000

// validate holds the conditions to a grid with at most so many engines.
func (c Conditions) validate(engines int) error {
	for _, s := range c.Slow {
		if s.Engine > engines {
			return fmt.Errorf("engine %d is slow: no setting has more than %d engines", s.Engine, engines)
		}
	}
	for _, l := range c.Lose {
		if l.Step > mostLossStep {
			return fmt.Errorf("engines are lost at step %d: take %d at most", l.Step, mostLossStep)
		}
	}
	return nil
}

// lossStep is the step from which on nothing more is lost; 0: nothing is.
func (c Conditions) lossStep() int {
	last := 0
	for _, l := range c.Lose {
		last = max(last, int(l.Step))
	}
	return last
}

// Texts says the conditions in words.
func (c Conditions) Texts() []string {
	var out []string
	for _, l := range c.Lose {
		engines := "engine is"
		if l.Engines > 1 {
			engines = "engines are"
		}
		out = append(out, fmt.Sprintf("%d %s lost at step %d", l.Engines, engines, l.Step))
	}
	for _, s := range c.Slow {
		out = append(out, fmt.Sprintf("engine %d runs at %g times its speed", s.Engine, s.Speed))
	}
	if c.Publish != nil {
		out = append(out, fmt.Sprintf("publishing takes %s", time.Duration(*c.Publish)))
	}
	return out
}

// apply puts the conditions into a setup. A slow engine that the setup does not have is none.
func (c Conditions) apply(s sim.Setup) sim.Setup {
	if c.Publish != nil {
		s.Trainer.Publish = *c.Publish
	}
	var begin []sim.FleetEvent
	for _, slow := range c.Slow {
		if slow.Engine <= s.Fleet.Engines {
			begin = append(begin, sim.FleetEvent{Engine: slow.Engine - 1, Kind: sim.SlowEngine, Factor: 1 / slow.Speed})
		}
	}
	events := append(begin, s.Fleet.Events...)
	last := s.Fleet.Engines - 1 // the last ones are lost: the first may be the slow ones
	for _, l := range c.Lose {
		for range min(l.Engines, max(last+1, 0)) {
			lost := sim.FleetEvent{Step: l.Step, Engine: last, Kind: sim.LoseEngine}
			at := slices.IndexFunc(events, func(e sim.FleetEvent) bool { return e.Step > l.Step })
			if at < 0 {
				at = len(events)
			}
			events = slices.Insert(slices.Clone(events), at, lost)
			last--
		}
	}
	s.Fleet.Events = events
	return s
}
