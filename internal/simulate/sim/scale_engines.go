package sim

import (
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/scaling/terms"
)

// Scaling lets a machine decide how many engines there are, in place of the setup's number. All of them begin with
// their cold start, those of the beginning, too.
type Scaling struct {
	Config scaling.Config
	// Every is how often the machine gets a sample; 0: DefaultSampleEvery.
	Every time.Duration
	// ColdStart is an engine's, by its number, and Life for how long it serves until it is lost; 0: it is not lost.
	ColdStart func(no int) time.Duration
	Life      func(no int) time.Duration
	// Decided, if set, hears of every sample and of what the machine made of it.
	Decided func(scaling.Sample, []scaling.Command)
}

// DefaultSampleEvery is how often a machine gets a sample.
const DefaultSampleEvery = 10 * time.Second

// Scaled is what became of a fleet that was scaled.
type Scaled struct {
	Decisions []scaling.Decision
	Measured  []scaling.Measured
	// EngineSec is the time for which engines were paid: from their start to their loss, or until they were drained.
	EngineSec     float64
	Started, Lost int
	Most          int // alive at once
}

// scaler is the driver of a scaling machine in virtual time.
type scaler struct {
	*pipeline
	of      *Scaling
	machine *scaling.Machine
	every   time.Duration
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
	*engine
	no       int
	started  time.Duration
	draining bool
}

// coldStartsKept is of how many engines the cold start is the mean.
const coldStartsKept = 8

func newScaler(p *pipeline, of *Scaling) (*scaler, error) {
	machine, err := scaling.New(of.Config)
	if err != nil {
		return nil, err
	}
	s := &scaler{pipeline: p, of: of, machine: machine, every: of.Every}
	if s.every <= 0 {
		s.every = DefaultSampleEvery
	}
	s.terms = terms.Run{GroupsPerStep: p.setup.Buffer.GroupsPerStep, Depth: p.setup.Buffer.Depth}
	return s, nil
}

// begin takes the first sample, when nothing has happened yet.
func (s *scaler) begin() { s.agenda.At(0, classScaling, s, 0) }

// Happen takes a sample, and plans the next.
func (s *scaler) Happen(now time.Duration, _ uint64) {
	s.sample(now)
	s.agenda.At(now+s.every, classScaling, s, 0)
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
	t := s.fleet.Totals()
	w := s.rates.Read(terms.Counters{Sec: now.Seconds(), EngineSec: t.EngineSec, BusySec: t.BusySec,
		InFlightSec: t.InFlightSec, LimitSec: t.LimitSec, QueuedSec: t.QueuedSec, Input: t.Worked.Prompt,
		Cached: t.Worked.Cached, Output: t.Worked.Output})
	sample := scaling.Sample{
		At: startOfRun.Add(now), Sec: (now - s.at).Seconds(), Engines: s.count(), Outstanding: int(t.Held),
		SlotShare: w.SlotShare, BusyShare: w.BusyShare, Queued: w.Queued, Slots: s.setup.Fleet.MaxInFlight,
		ColdStartSec: meanOf(s.coldStart),
	}
	waited := s.done
	waits := s.trainer.state == trainerAsks
	if waits {
		waited += now - s.trainer.asked
	}
	engines := float64(sample.Engines.Ready)
	c, p, rd := s.terms.Terms(engines, s.rates.Rate())
	run := scaling.Run{Name: s.setup.Name, C: c, P: p, RD: rd, Engines: engines, Depth: s.setup.Buffer.Depth,
		Steps: len(s.trainer.records), StarvedSec: (waited - s.starved).Seconds(), Waits: waits,
		ReadyDepth: float64(s.buffer.Counts().Ready) / float64(max(1, s.setup.Buffer.GroupsPerStep))}
	if n := len(s.trainer.records); n > 0 {
		run.LastEnd = s.trainer.records[n-1].Service.CompletedAt
	}
	sample.Runs = []scaling.Run{run}
	s.at, s.starved = now, waited
	return sample
}

func meanOf(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// count is the engines by state.
func (s *scaler) count() scaling.Engines {
	var n scaling.Engines
	for _, e := range s.paid {
		switch {
		case e.draining:
			n.Draining++
		case e.state == engineCold:
			n.Starting++
		default:
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
	e, err := s.newEngine()
	if err != nil {
		s.fail(err)
		return
	}
	no := len(s.engines) - 1
	s.result.Started++
	paid := &paidEngine{engine: e, no: no, started: now}
	s.paid = append(s.paid, paid)
	cold := s.setup.Fleet.ColdStart.Std()
	if s.of.ColdStart != nil {
		cold = s.of.ColdStart(no)
	}
	s.planned++
	s.agenda.At(now+cold, classScaling, paidEngineEvent{s, paid}, coldStartEnds)
}

// drain lets one engine end what it has; one that has not begun to serve ends at once.
func (s *scaler) drain(now time.Duration) {
	var which *paidEngine
	for _, e := range s.paid {
		better := which == nil || e.state == engineCold || which.state != engineCold
		if !e.draining && better {
			which = e
		}
	}
	if which == nil {
		return
	}
	if which.state == engineCold {
		which.state = engineLost
		s.pay(now, which)
		return
	}
	which.draining = true
	s.happens(FleetEvent{Kind: DrainEngine, Engine: which.no})
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
		if e.state == engineReady && !e.draining {
			s.result.Lost++
			s.lose(e.engine)
			s.pay(now, e)
		}
		return
	}
	s.planned--
	if e.state != engineCold {
		return // it was not wanted any more
	}
	s.join(e.engine)
	s.coldStart = append(s.coldStart, (now - e.started).Seconds())
	if n := len(s.coldStart); n > coldStartsKept {
		s.coldStart = s.coldStart[n-coldStartsKept:]
	}
	if s.of.Life != nil {
		if life := s.of.Life(e.no); life > 0 {
			s.agenda.At(now+life, classScaling, ev, lifeEnds)
		}
	}
}

// endDrained lets the engines go that have ended what they had.
func (s *scaler) endDrained(now time.Duration) {
	for _, e := range slices.Clone(s.paid) {
		if e.draining && !s.fleet.Has(e.id) {
			e.state = engineLost
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
func (s *scaler) scaled(now time.Duration) *Scaled {
	r := s.result
	for _, e := range s.paid {
		r.EngineSec += (now - e.started).Seconds()
	}
	return &r
}

// claimed and stepDone hear of the trainer, groupReady of the buffer.
func (s *scaler) claimed(waited time.Duration) { s.done += waited }

func (s *scaler) stepDone(r *steprecord.StepRecord) {
	s.terms.StepDone(r.Trainer.WallSec - r.Trainer.Phases[steprecord.PhaseWait])
}

func (s *scaler) groupReady(v *steprecord.GroupView) { s.terms.GroupReady(v) }
