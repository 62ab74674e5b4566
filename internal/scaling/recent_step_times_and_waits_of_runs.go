package scaling

import (
	"math"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// keptSteps is of how many steps a run's ends are kept, and maxRuns of how many runs.
const (
	keptSteps = 16
	maxRuns   = 256
)

// runSteps has the ends of a run's newest steps, and the recent share of time that its trainer has waited.
type runSteps struct {
	Run     rollout.RunName `json:"run"`
	Ends    []stepEnd       `json:"ends"`
	Starved float64         `json:"starved"`
	// Full is how full the fleet was in the same time.
	Full float64 `json:"full"`
}

// stepEnd is when so many steps were completed.
type stepEnd struct {
	Steps int       `json:"steps"`
	At    time.Time `json:"at"`
}

// noteSteps takes in the steps that have ended.
func (m *Machine) noteSteps(s *Sample) {
	m.Steps = slices.DeleteFunc(m.Steps, func(of runSteps) bool {
		return !slices.ContainsFunc(s.Runs, func(r Run) bool { return r.Name == of.Run })
	})
	for i := range s.Runs {
		r := &s.Runs[i]
		of := m.stepsOf(r.Name)
		if of == nil {
			if len(m.Steps) >= maxRuns {
				continue
			}
			m.Steps = append(m.Steps, runSteps{Run: r.Name})
			of = &m.Steps[len(m.Steps)-1]
		}
		of.note(stepEnd{r.Steps, r.LastEnd})
		of.remember(s, r)
	}
}

func (m *Machine) stepsOf(run rollout.RunName) *runSteps {
	for i := range m.Steps {
		if m.Steps[i].Run == run {
			return &m.Steps[i]
		}
	}
	return nil
}

// note takes the newest end. A run that was set back begins anew.
func (s *runSteps) note(end stepEnd) {
	if end.Steps <= 0 || end.At.IsZero() {
		return
	}
	if n := len(s.Ends); n > 0 {
		last := s.Ends[n-1]
		if end.Steps == last.Steps {
			return
		}
		if end.Steps < last.Steps || !end.At.After(last.At) {
			s.Ends = s.Ends[:0]
		}
	}
	s.Ends = append(s.Ends, end)
	if n := len(s.Ends); n > keptSteps {
		s.Ends = slices.Delete(s.Ends, 0, n-keptSteps)
	}
}

// remember takes in how long the trainer has waited, and how full the fleet was. What was longer ago than two steps
// hardly counts.
func (s *runSteps) remember(of *Sample, r *Run) {
	if of.Sec <= 0 {
		return
	}
	memory := max(r.C, r.P, s.newest(1), of.Sec)
	weight := 1 - math.Exp(-of.Sec/memory)
	s.Starved += (min(1, r.StarvedSec/of.Sec) - s.Starved) * weight
	s.Full += (min(1, max(of.SlotShare, of.Saturation)) - s.Full) * weight
}

// newest is how long a step took in the mean of the newest n or more; 0: so many are not known.
func (s *runSteps) newest(n int) float64 {
	for i := len(s.Ends) - 2; i >= 0; i-- {
		if s.Ends[len(s.Ends)-1].Steps-s.Ends[i].Steps >= n {
			return s.between(i)
		}
	}
	return 0
}

// after is how long the first n or more steps took that began after a time; false: they have not ended yet.
func (s *runSteps) after(at time.Time, n int) (float64, bool) {
	for i := range s.Ends {
		if s.Ends[i].At.Before(at) {
			continue
		}
		for j := i + 1; j < len(s.Ends); j++ {
			if steps := s.Ends[j].Steps - s.Ends[i].Steps; steps >= n {
				return s.Ends[j].At.Sub(s.Ends[i].At).Seconds() / float64(steps), true
			}
		}
		return 0, false
	}
	return 0, false
}

func (s *runSteps) between(i int) float64 {
	last := s.Ends[len(s.Ends)-1]
	return last.At.Sub(s.Ends[i].At).Seconds() / float64(last.Steps-s.Ends[i].Steps)
}
