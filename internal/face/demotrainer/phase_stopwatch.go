package demotrainer

import (
	"fmt"
	"strings"
	"time"
)

// stopwatch measures phases that follow one another.
type stopwatch struct {
	start, last time.Time
	phases      []lap
}

type lap struct {
	phase string
	time  time.Duration
}

func newStopwatch() *stopwatch {
	now := time.Now()
	return &stopwatch{start: now, last: now}
}

// lap is how long the phase that goes on has lasted.
func (s *stopwatch) lap() time.Duration { return time.Since(s.last) }

// end says that what went on since the last end was phase.
func (s *stopwatch) end(phase string) {
	now := time.Now()
	s.phases = append(s.phases, lap{phase, now.Sub(s.last)})
	s.last = now
}

func (s *stopwatch) wall() time.Duration { return time.Since(s.start) }

func (s *stopwatch) seconds() map[string]float64 {
	phases := map[string]float64{}
	for _, p := range s.phases {
		phases[p.phase] += p.time.Seconds()
	}
	return phases
}

// String is the wall time and each phase's.
func (s *stopwatch) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%6.2f s:", s.wall().Seconds())
	for _, p := range s.phases {
		fmt.Fprintf(&b, " %s %.2f", p.phase, p.time.Seconds())
	}
	return b.String()
}
