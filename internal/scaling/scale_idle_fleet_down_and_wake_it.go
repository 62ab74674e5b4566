package scaling

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
)

// idle decides while no run is active; false: one is. Engines are kept for a cold start, within which it is as cheap to
// keep them as to start them again; then there are Min of them, and after ScaleToZero none.
func (m *Machine) idle(s *Sample) ([]Command, bool) {
	for i := range s.Runs {
		if s.Runs[i].active() {
			return nil, false
		}
	}
	if m.IdleSince.IsZero() {
		m.IdleSince = s.At
		m.Ups, m.Downs, m.Trial = window{}, window{}, nil
	}
	lasted := s.At.Sub(m.IdleSince)
	zero := m.Config.ScaleToZero.Std()
	to, until := m.Wanted, time.Time{}
	switch {
	case zero > 0 && lasted >= zero:
		to = 0
	case m.Config.Policy == Fixed || m.Wanted <= m.least():
	case lasted >= m.coldStart(s) || m.Config.Policy == Queue && lasted >= m.Config.Queue.ScaleDown.Std():
		to = m.least()
	default:
		until = m.IdleSince.Add(m.coldStart(s))
	}
	if zero > 0 && to > 0 && until.IsZero() {
		until = m.IdleSince.Add(zero)
	}
	what := "no run is active"
	if n := len(s.Runs); n > 0 {
		what = fmt.Sprintf("all %d runs are paused", n)
		if n == 1 {
			what = fmt.Sprintf("%s is paused", s.Runs[0].Name)
		}
	}
	m.Why = what
	m.Next = until
	if to == m.Wanted {
		return nil, true
	}
	if m.Wanted > m.least() {
		m.Before = m.Wanted
	}
	c := m.change(s.At, to, Idles, fmt.Sprintf("%s, for %s now", what, units.Seconds(lasted.Seconds())), nil)
	m.Next = until
	return []Command{c}, true
}

// wakes wants engines again when a run is active after a time without any.
func (m *Machine) wakes(s *Sample) []Command {
	var active []rollout.RunName
	for i := range s.Runs {
		if s.Runs[i].active() {
			active = append(active, s.Runs[i].Name)
		}
	}
	slept := !m.IdleSince.IsZero()
	before, of := m.Before, m.BeforeRun
	m.IdleSince, m.BeforeRun = time.Time{}, active[0]
	m.Before = 0
	to := min(max(m.resting(), 1), m.most())
	text := fmt.Sprintf("%s wakes the fleet", active[0])
	if slept && before > to && of == active[0] {
		to = min(before, m.most())
		text += fmt.Sprintf(", which had %d engines when it worked for it last", before)
	}
	if to <= m.Wanted {
		return nil
	}
	return []Command{m.change(s.At, to, Wakes, text, nil)}
}
