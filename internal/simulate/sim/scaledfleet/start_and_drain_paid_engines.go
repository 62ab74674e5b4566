package scaledfleet

import (
	"slices"
	"time"

	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/simulate/sim"
)

// paidEngine is an engine that the driver has started.
type paidEngine struct {
	no      int
	started time.Duration
	state   engineState
}

type engineState uint8

const (
	starting engineState = iota
	serving
	draining
	gone
)

// coldStartsKept is of how many engines the cold start is the mean.
const coldStartsKept = 8

// count is the engines by state.
func (s *scaler) count() scaling.Engines {
	var n scaling.Engines
	for _, e := range s.paid {
		switch e.state {
		case draining:
			n.Draining++
		case starting:
			n.Starting++
		case serving, gone:
			n.Ready++
		}
	}
	return n
}

// match starts and drains engines until as many are alive as are wanted. Engines that are still starting go first, and
// of the others the newest.
func (s *scaler) match(now time.Duration) {
	alive := s.count().Alive()
	for ; alive < s.machine.Wanted; alive++ {
		s.start(now)
	}
	for ; alive > s.machine.Wanted; alive-- {
		s.drain(now)
	}
	s.result.Most = max(s.result.Most, alive)
}

func (s *scaler) start(now time.Duration) {
	no, ok := s.StartEngine()
	if !ok {
		return
	}
	s.result.Started++
	paid := &paidEngine{no: no, started: now}
	s.paid = append(s.paid, paid)
	cold := s.Setup().Fleet.ColdStart.Std()
	if s.of.ColdStart != nil {
		cold = s.of.ColdStart(no)
	}
	s.Agenda().At(now+cold, sim.ClassScaling, paidEngineEvent{s, paid}, coldStartEnds)
}

// drain lets one engine end what it has; one that has not begun to serve ends at once.
func (s *scaler) drain(now time.Duration) {
	var which *paidEngine
	for _, e := range s.paid {
		better := which == nil || e.state == starting || which.state != starting
		if e.state != draining && better {
			which = e
		}
	}
	if which == nil {
		return
	}
	if which.state == starting {
		which.state = gone
		s.pay(now, which)
		return
	}
	which.state = draining
	s.Happens(sim.FleetEvent{Kind: sim.DrainEngine, Engine: which.no})
}

// What happens to an engine that was started.
const (
	coldStartEnds uint64 = iota
	lifeEnds
)

// paidEngineEvent is the end of an engine's cold start, or of its life.
type paidEngineEvent struct {
	*scaler
	engine *paidEngine
}

// Happen lets an engine serve, or be lost.
func (ev paidEngineEvent) Happen(now time.Duration, what uint64) {
	s, e := ev.scaler, ev.engine
	if what == lifeEnds {
		if e.state == serving {
			e.state = gone
			s.result.Lost++
			s.Lose(e.no)
			s.pay(now, e)
		}
		return
	}
	if e.state == gone { // it was not wanted any more
		s.Forget(e.no)
		return
	}
	e.state = serving
	s.Join(e.no)
	s.coldStart = append(s.coldStart, (now - e.started).Seconds())
	if n := len(s.coldStart); n > coldStartsKept {
		s.coldStart = s.coldStart[n-coldStartsKept:]
	}
	if s.of.Life != nil {
		if life := s.of.Life(e.no); life > 0 {
			s.Agenda().At(now+life, sim.ClassScaling, ev, lifeEnds)
		}
	}
}

// endDrained lets the engines go that have ended what they had.
func (s *scaler) endDrained(now time.Duration) {
	for _, e := range slices.Clone(s.paid) {
		if e.state == draining && !s.Fleet().Has(s.EngineID(e.no)) {
			e.state = gone
			s.Forget(e.no)
			s.pay(now, e)
		}
	}
}

// pay ends the time for which an engine is paid.
func (s *scaler) pay(now time.Duration, e *paidEngine) {
	s.result.EngineSec += (now - e.started).Seconds()
	s.paid = slices.DeleteFunc(s.paid, func(o *paidEngine) bool { return o == e })
}
