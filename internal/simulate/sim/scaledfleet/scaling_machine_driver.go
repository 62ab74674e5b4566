package scaledfleet

import (
	"time"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/scaling/terms"
	"github.com/millrace/millrace/internal/simulate/sim"
)

// sampleEvery is how often the machine gets a sample.
const sampleEvery = 10 * time.Second

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

// Claimed hears of a batch that the trainer has got.
func (s *scaler) Claimed(waited time.Duration) { s.done += waited }

// StepDone hears of a completed step.
func (s *scaler) StepDone(r *steprecord.StepRecord) {
	s.terms.StepDone(r.Trainer.WallSec - r.Trainer.Phases[steprecord.PhaseWait])
}

// GroupReady hears of a group that the buffer has taken.
func (s *scaler) GroupReady(v *steprecord.GroupView) { s.terms.GroupReady(v) }
