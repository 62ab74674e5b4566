package scaling

import (
	"fmt"

	"github.com/millrace/millrace/internal/kit/units"
)

// queue decides as Modal's autoscaler does. It wants one engine for every TargetInputs requests that wait or run, and
// Buffer more while there are any, within least and most. More engines are started when they were wanted for all of
// the scale-up window; engines end when they were not wanted for all of the scale-down window.
func (m *Machine) queue(s *Sample) []Command {
	q := &m.Config.Queue
	wants := 0
	if s.Outstanding > 0 {
		wants = (s.Outstanding+q.TargetInputs-1)/q.TargetInputs + q.Buffer
	}
	wants = min(max(wants, m.least()), m.most())
	up, sustained := m.Ups.least(s.At, wants, q.ScaleUp.Std())
	down, idle := m.Downs.greatest(s.At, wants, q.ScaleDown.Std())
	up, down = min(up, m.most()), min(down, m.most()) // a price may have risen meanwhile
	text := fmt.Sprintf("%d requests are outstanding, and an engine is to have %d", s.Outstanding, q.TargetInputs)
	m.Why = text
	m.Next = s.At
	switch {
	case up > m.Wanted && sustained:
		if q.ScaleUp > 0 {
			text += fmt.Sprintf("; so it was for %s", units.Seconds(q.ScaleUp.Std().Seconds()))
		}
		return []Command{m.change(s.At, up, QueueUp, text, nil)}
	case down < m.Wanted && idle:
		return []Command{m.change(s.At, down, QueueDown, fmt.Sprintf("%s; no more were wanted for %s", text,
			units.Seconds(q.ScaleDown.Std().Seconds())), nil)}
	}
	return nil
}
