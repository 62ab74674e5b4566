package requestsim

import (
	"hash/fnv"
	"math/rand/v2"

	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// sim is a run under way.
type sim struct {
	agenda
	w       World
	streams map[string]*rand.Rand

	engines    []*engine
	fleetNoise float64
	queue      byAge
	queuedSec  float64
	queuedAt   float64
	requests   int

	groups   []*group // all
	ready    []*group // and not taken
	launched int      // less those that came to nothing
	nextSeq  int
	forPlace []*game
	playing  int

	processors []float64 // when each is free again

	claimed, completed int // steps
	version            int
	published          int // versions asked for
	asked              float64
	waiting            bool
	looking            bool
	working            noise
	speeds             noise

	record *recorder
}

// Play plays a world to its end, and leaves the run's record.
func Play(w World) *Recorded {
	s := &sim{w: w, streams: map[string]*rand.Rand{}, fleetNoise: 1}
	s.record = newRecorder(s)
	for i := range w.Engines + w.Extra {
		e := s.newEngine()
		if w.Cold == 0 || i < w.Warm || i >= w.Engines {
			e.up = true
			continue
		}
		s.after(w.Cold, func() { s.join(e) })
	}
	for i := range s.w.Faults {
		if f := s.w.Faults[i]; f.At > 0 {
			s.after(f.At, func() { s.do(f) })
		}
	}
	s.othersAsk()
	s.record.begin()
	s.launch()
	s.ask0()
	until := s.w.Until
	if until == 0 {
		until = s.w.Steps
	}
	for s.completed < until && s.step() {
	}
	return s.record.result()
}

// random is a stream of its own for each purpose, so that one more draw does not shift the others.
func (s *sim) random(stream string) *rand.Rand {
	r := s.streams[stream]
	if r == nil {
		h := fnv.New64a()
		h.Write([]byte(stream))
		r = rand.New(rand.NewPCG(s.w.Seed, h.Sum64()))
		s.streams[stream] = r
	}
	return r
}

// do lets a fault happen.
func (s *sim) do(f Fault) {
	f.Do(&Control{World: &s.w, sim: s})
	for _, e := range s.engines {
		e.paceChanged()
	}
	s.othersAsk()
	s.launch()
	s.givePlaces()
	s.dispatch()
	s.look()
}

func (s *sim) join(e *engine) {
	e.account()
	e.up = true
	s.record.engine(e, enginestate.EngineReady, "")
	s.dispatch()
}
