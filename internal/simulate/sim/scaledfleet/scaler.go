// Package scaledfleet lets the service's scaling machine decide how many engines a simulated run has. Tests and trials
// use it, the product does not: it scales live engines.
package scaledfleet

import (
	"context"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/scaling/terms"
	"github.com/millrace/millrace/internal/simulate/sim"
)

// Scaling is the machine's configuration and what its engines are like. All of them begin with their cold start, those
// of the beginning, too.
type Scaling struct {
	Config scaling.Config
	// ColdStart is an engine's, by its number, and Life for how long it serves until it is lost; 0: it is not lost.
	ColdStart func(no int) time.Duration
	Life      func(no int) time.Duration
	// Decided, if set, hears of every sample and of what the machine made of it.
	Decided func(scaling.Sample, []scaling.Command)
}

// sampleEvery is how often the machine gets a sample.
const sampleEvery = 10 * time.Second

// Scaled is what became of a fleet that was scaled.
type Scaled struct {
	Decisions []scaling.Decision
	Measured  []scaling.Measured
	// EngineSec is the time for which engines were paid: from their start to their loss, or until they were drained.
	EngineSec     float64
	Started, Lost int
	Most          int // alive at once
}

// Run plays a setup whose engines the machine starts and ends.
func Run(ctx context.Context, s sim.Setup, o sim.Options, of Scaling) (sim.Result, Scaled, error) {
	machine, err := scaling.New(of.Config)
	if err != nil {
		return sim.Result{}, Scaled{}, err
	}
	return run(ctx, s, o, &scaler{of: of, machine: machine})
}

func run(ctx context.Context, s sim.Setup, o sim.Options, by *scaler) (sim.Result, Scaled, error) {
	o.Scaler = by
	result, err := sim.Run(ctx, s, o)
	if by.Control == nil {
		return result, Scaled{}, err
	}
	return result, by.scaled(), err
}

// scaler is the driver of a scaling machine in virtual time.
type scaler struct {
	*sim.Control
	of      Scaling
	machine *scaling.Machine
	rates   terms.Fleet
	terms   terms.Run

	at        time.Duration // of the newest sample
	starved   time.Duration // until then
	done      time.Duration // waits of completed claims
	coldStart []float64     // of the newest engines that came to serve
	paid      []*paidEngine
	result    Scaled
}

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

// Begin takes the first sample, when nothing has happened yet.
func (s *scaler) Begin(c *sim.Control) {
	s.Control = c
	s.terms = terms.Run{GroupsPerStep: c.Setup().Buffer.GroupsPerStep, Depth: c.Setup().Buffer.Depth}
	c.Agenda().At(0, sim.ClassScaling, s, 0)
}

// Happen takes a sample, and plans the next.
func (s *scaler) Happen(now time.Duration, _ uint64) {
	s.sample(now)
	s.Agenda().At(now+sampleEvery, sim.ClassScaling, s, 0)
}

// sample gives the machine a sample and makes as many engines alive as it wants.
func (s *scaler) sample(now time.Duration) {
	s.endDrained(now)
	sample := s.take(now)
	commands := s.machine.Handle(sample)
	for _, c := range commands {
		switch c := c.(type) {
		case scaling.Change:
			s.result.Decisions = append(s.result.Decisions, c.Decision)
		case scaling.Measured:
			s.result.Measured = append(s.result.Measured, c)
		}
	}
	if s.of.Decided != nil {
		s.of.Decided(sample, commands)
	}
	s.match(now)
}

// take is the sample of the window that ends now.
func (s *scaler) take(now time.Duration) scaling.Sample {
	t, setup := s.Fleet().Totals(), s.Setup()
	w := s.rates.Read(terms.Counters{Sec: now.Seconds(), EngineSec: t.EngineSec, BusySec: t.BusySec,
		InFlightSec: t.InFlightSec, LimitSec: t.LimitSec, QueuedSec: t.QueuedSec, Input: t.Worked.Prompt,
		Cached: t.Worked.Cached, Output: t.Worked.Output})
	sample := scaling.Sample{
		At: s.Time(now), Sec: (now - s.at).Seconds(), Engines: s.count(), Outstanding: int(t.Held),
		SlotShare: w.SlotShare, BusyShare: w.BusyShare, Queued: w.Queued, Slots: setup.Fleet.MaxInFlight,
		ColdStartSec: stat.Mean(s.coldStart, 0.95).Mean,
	}
	waited := s.done
	since, waits := s.Waits()
	if waits {
		waited += now - since
	}
	engines := float64(sample.Engines.Ready)
	c, p, rd := s.terms.Terms(engines, s.rates.Rate())
	run := scaling.Run{Name: setup.Name, C: c, P: p, RD: rd, Engines: engines, Depth: setup.Buffer.Depth,
		Steps: len(s.Records()), StarvedSec: (waited - s.starved).Seconds(), Waits: waits,
		ReadyDepth: float64(s.ReadyGroups()) / float64(max(1, setup.Buffer.GroupsPerStep))}
	if n := len(s.Records()); n > 0 {
		run.LastEnd = s.Records()[n-1].Service.CompletedAt
	}
	sample.Runs = []scaling.Run{run}
	s.at, s.starved = now, waited
	return sample
}

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

// scaled is what became of the fleet until now.
func (s *scaler) scaled() Scaled {
	r := s.result
	for _, e := range s.paid {
		r.EngineSec += (s.Agenda().Now() - e.started).Seconds()
	}
	return r
}

// Claimed hears of a batch that the trainer has got.
func (s *scaler) Claimed(waited time.Duration) { s.done += waited }

// StepDone hears of a completed step.
func (s *scaler) StepDone(r *steprecord.StepRecord) {
	s.terms.StepDone(r.Trainer.WallSec - r.Trainer.Phases[steprecord.PhaseWait])
}

// GroupReady hears of a group that the buffer has taken.
func (s *scaler) GroupReady(v *steprecord.GroupView) { s.terms.GroupReady(v) }
