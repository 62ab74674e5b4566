package scaling

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/kit/units"
)

// Machine decides from sample to sample. Its zero value is of no use: New or Restore.
type Machine struct{ State }

// New is the machine of a fleet without earlier decisions.
func New(cfg Config) (*Machine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m := &Machine{State{Version: StateVersion, Config: cfg, Why: "no sample was taken yet"}}
	m.Wanted = m.resting()
	return m, nil
}

// Restore is the machine that left a state.
func Restore(s State) (*Machine, error) {
	if s.Version < 1 || s.Version > StateVersion {
		return nil, fmt.Errorf("scaling: a state of version %d, and this is code for versions 1 to %d", s.Version,
			StateVersion)
	}
	if err := s.Config.Validate(); err != nil {
		return nil, fmt.Errorf("scaling: a state whose configuration does not hold: %w", err)
	}
	return &Machine{s}, nil
}

// resting is how many engines are wanted where nothing is known of runs.
func (m *Machine) resting() int {
	if m.Config.Policy == Fixed {
		return min(m.Config.Engines, m.most())
	}
	return m.least()
}

// Handle takes an event and returns what follows from it. A sample that makes no sense, or that is not newer than the
// one before, brings nothing.
func (m *Machine) Handle(ev Event) []Command {
	switch ev := ev.(type) {
	case Sample:
		if !ev.valid() || !ev.At.After(m.At) {
			return nil
		}
		return m.sampled(&ev)
	case Set:
		return m.set(ev)
	}
	return nil
}

// set takes an operator's configuration, which must be valid. What was learnt about steps stays.
func (m *Machine) set(ev Set) []Command {
	if ev.Config.Validate() != nil {
		return nil
	}
	before := m.Config
	m.Config = ev.Config
	m.Ups, m.Downs = window{}, window{}
	to := min(max(m.Wanted, m.least()), m.most())
	if m.Config.Policy == Fixed {
		to = m.resting()
	}
	if zero := m.Config.ScaleToZero.Std(); zero > 0 && m.Wanted == 0 && !m.IdleSince.IsZero() &&
		ev.At.Sub(m.IdleSince) >= zero {
		to = 0 // the fleet sleeps
	}
	if to == m.Wanted {
		return nil
	}
	reason := fmt.Sprintf("an operator set min %d, max %d", m.Config.Min, m.Config.Max)
	if m.Config.Policy == Fixed {
		reason = fmt.Sprintf("an operator set %s", units.Counted(m.Config.Engines, "engine"))
	}
	if before.Policy != m.Config.Policy {
		reason += fmt.Sprintf(", policy %s", m.Config.Policy)
	}
	if m.affordable() < m.Config.Max {
		reason += fmt.Sprintf("; %s", m.limitText())
	}
	return []Command{m.change(ev.At, to, Configured, reason, nil)}
}

// sampled decides on a sample.
func (m *Machine) sampled(s *Sample) []Command {
	m.account(s)
	m.noteSteps(s)
	if cmd, idle := m.idle(s); idle {
		return cmd
	}
	if cmd := m.wakes(s); cmd != nil {
		return cmd
	}
	commands := m.judge(s)
	if len(commands) > 0 {
		if _, changed := commands[len(commands)-1].(Change); changed {
			return commands
		}
	}
	switch m.Config.Policy {
	case Fixed:
		m.Why = fmt.Sprintf("the number is fixed at %d", m.Wanted)
	case Queue:
		commands = append(commands, m.queue(s)...)
	case Starvation:
		commands = append(commands, m.starvation(s)...)
	}
	return commands
}

// account adds what the engines have cost since the last sample.
func (m *Machine) account(s *Sample) {
	sec := s.Sec
	if !m.At.IsZero() {
		sec = s.At.Sub(m.At).Seconds()
	}
	m.At = s.At
	engineSec := sec * float64(s.Engines.Paid())
	if s.Price > 0 {
		m.Price = s.Price
	}
	m.EngineSec += engineSec
	m.Cost += engineSec / 3600 * m.price()
}

// change wants another number from now on.
func (m *Machine) change(at time.Time, to int, code Code, reason string, predicted []Effect) Change {
	from := m.Wanted
	m.Wanted = to
	if to > from {
		m.LastUp = at
	} else {
		m.LastDown = at
	}
	m.Decisions++
	m.Next = at.Add(m.rest())
	d := Decision{No: m.Decisions, At: at, From: from, To: to, Code: code, Reason: reason, Next: m.Next,
		Predicted: predicted, Cost: m.Cost}
	m.Last, m.Why = &d, reason
	m.Ups, m.Downs = window{}, window{}
	m.Trial = nil
	return Change{d}
}

// coldStart is how long an engine takes to be of use, as far as is known.
func (m *Machine) coldStart(s *Sample) time.Duration {
	sec := s.ColdStartSec
	if sec <= 0 {
		sec = m.Config.Effective().ColdStart.Std().Seconds()
	}
	sec += float64(s.Adapters) * s.LoadSec
	return time.Duration(min(sec, 24*3600) * float64(time.Second))
}

// price is an engine's cost, in $ per hour; 0: not known.
func (m *Machine) price() float64 {
	if m.Price > 0 {
		return m.Price
	}
	return m.Config.Price
}

// affordable is how many engines the budget pays for. Without a price it bounds nothing.
func (m *Machine) affordable() int { return affordable(m.Config.Budget, m.price()) }

// most is the bound of what may be wanted.
func (m *Machine) most() int { return min(m.Config.Max, m.affordable()) }

// least is the minimum wanted while the fleet does not sleep.
func (m *Machine) least() int { return min(m.Config.Min, m.most()) }
