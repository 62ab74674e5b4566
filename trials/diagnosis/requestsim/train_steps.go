package requestsim

import (
	"cmp"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

func (s *sim) ask0() {
	s.asked, s.waiting = s.now, true
	s.look()
}

// look claims the batch if it is there.
func (s *sim) look() {
	if !s.waiting || s.looking || !s.batchReady() {
		return
	}
	s.looking = true
	s.after(s.w.Claim, s.claim)
}

func (s *sim) batchReady() bool {
	s.dropStale()
	need := s.w.Groups
	if s.claimed == 0 {
		need = s.wanted()
	}
	return len(s.ready) >= max(need, s.w.Groups)
}

func (s *sim) dropStale() {
	if s.w.OnStale != runspec.DropStale {
		return
	}
	for _, g := range slices.Clone(s.ready) {
		if s.version-g.version > cmp.Or(s.w.Instead.MaxStaleness, s.w.MaxStaleness) {
			s.ready = slices.DeleteFunc(s.ready, func(other *group) bool { return other == g })
			s.drop(g, rollout.CodeStale)
		}
	}
}

func (s *sim) claim() {
	s.looking = false
	if !s.batchReady() {
		return
	}
	s.sortReady()
	k := s.claimed
	s.record.granted(k)
	batch := slices.Clone(s.ready[:s.w.Groups])
	s.ready = slices.Clone(s.ready[s.w.Groups:])
	for _, g := range batch {
		g.taken = true
	}
	s.waiting = false
	s.claimed++
	s.fleetNoise = s.speeds.next(s.w.FleetNoise, s.random("fleet").NormFloat64(), s.random("tail").Float64())
	for _, e := range s.engines {
		e.paceChanged()
	}
	for i := range s.w.Faults {
		if f := s.w.Faults[i]; f.At == 0 && f.Step == k {
			s.do(f)
		}
	}
	s.launch()
	granted := s.now
	s.after(s.w.Deliver, func() { s.train(k, batch, granted) })
}

// train spends the phases one after another.
func (s *sim) train(k int, batch []*group, granted float64) {
	phases := map[steprecord.Phase]float64{steprecord.PhaseWait: s.now - s.asked}
	factor := s.working.next(s.w.Noise, s.random("trainer").NormFloat64(), s.random("trainer tail").Float64())
	if s.w.TrainDrift != 0 {
		factor *= 1 + s.w.TrainDrift*float64(k)
	}
	phases[steprecord.PhaseLoad] = factor * s.w.Load
	phases[steprecord.PhaseRefLogprobs] = factor * s.w.Ref
	phases[steprecord.PhaseTrain] = factor * s.w.Train
	sec := phases[steprecord.PhaseLoad] + phases[steprecord.PhaseRefLogprobs] + phases[steprecord.PhaseTrain]
	s.after(sec, func() { s.publish(k, batch, granted, phases, factor) })
}

// publish lets engines load the version; the phase lasts until they have, unless the next step may begin before.
func (s *sim) publish(k int, batch []*group, granted float64, phases map[steprecord.Phase]float64, factor float64) {
	began := s.now
	ended := func() {
		phases[steprecord.PhasePublish] = s.now - began
		s.checkpoint(k, batch, granted, phases)
	}
	own, loaded, over := false, s.w.AdapterLoad <= 0 || s.w.PublishInBackground, false
	check := func() {
		if own && loaded && !over {
			over = true
			ended()
		}
	}
	s.loadAdapters(func() {
		s.version = k + 1
		loaded = true
		check()
	})
	s.after(factor*s.w.Publish, func() { own = true; check() })
}

// loadAdapters has every engine load, and calls back when the last one has.
func (s *sim) loadAdapters(done func()) {
	open := 1
	part := func() {
		if open--; open == 0 {
			done()
		}
	}
	for _, e := range s.engines {
		if !e.up || s.w.AdapterLoad <= 0 {
			continue
		}
		open++
		sec, stalls := s.w.AdapterLoad*s.spread("loads", 0.05), s.w.AdapterStalls
		if stalls {
			e.stalled++
			e.paceChanged()
		}
		s.after(sec, func() {
			if stalls {
				e.stalled--
				e.paceChanged()
			}
			s.record.loaded(e, sec, s.published+1)
			part()
		})
	}
	s.published++
	part()
}

func (s *sim) checkpoint(k int, batch []*group, granted float64, phases map[steprecord.Phase]float64) {
	sec := 0.0
	if s.w.CheckpointEvery > 0 && (k+1)%s.w.CheckpointEvery == 0 {
		sec = s.w.Checkpoint
	}
	s.after(sec, func() {
		if sec > 0 && !s.w.CheckpointUnnamed {
			phases[steprecord.PhaseCheckpoint] = sec
		}
		s.record.completed(k, batch, granted, phases)
		s.completed++
		s.launch()
		s.ask0()
	})
}
