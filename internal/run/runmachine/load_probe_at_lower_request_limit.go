package runmachine

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// LoadProbeAsked begins a load probe, checked already, or ends the one under way. ID is the caller's, and not used
// twice.
type LoadProbeAsked struct {
	ID      string
	Request runstatus.LoadProbeRequest
}

func (LoadProbeAsked) event() {}

// Bounds of a load probe.
const (
	MaxProbeSteps = 20
	MaxProbeTime  = 6 * time.Hour
)

// ValidateLoadProbe reports why a load probe cannot begin now.
func (r *Run) ValidateLoadProbe(p runstatus.LoadProbeRequest) error {
	name, own := r.Spec.Name, r.Spec.Dispatch.MaxInFlightPerEngine
	switch {
	case p.End && r.LoadProbe != nil:
		return nil
	case p.End:
		return rollout.Refuse(rollout.Conflict, "run %s is not being probed", name)
	case r.State != runstatus.RunRunning:
		return rollout.Refuse(rollout.RunOver, "run %s is %s; a probe needs a run whose games go on", name, r.State)
	case r.LoadProbe != nil:
		return rollout.Refuse(rollout.Conflict, "run %s is probed already, until step %d is claimed; "+
			"wait for it, or end it with: millrace diagnose %s --end-probe", name, r.LoadProbe.LastStep, name)
	case p.Steps < 1 || p.Steps > MaxProbeSteps:
		return rollout.Refuse(rollout.Invalid, "steps: %d; want 1 to %d", p.Steps, MaxProbeSteps)
	case p.For <= 0 || p.For > MaxProbeTime:
		return rollout.Refuse(rollout.Invalid, "a probe for %v; want more than nothing and at most %v", p.For, MaxProbeTime)
	case p.Limit < 1 || own > 0 && p.Limit >= own:
		return rollout.Refuse(rollout.Invalid, "a limit of %d requests in flight per engine; want at least 1 and less "+
			"than the run's own", p.Limit)
	case r.Claimed+p.Steps >= r.Spec.Steps:
		return rollout.Refuse(rollout.Invalid, "the last step of run %s is %d; a probe of %d steps, which begins with "+
			"step %d, would not be over by then", name, r.Spec.Steps-1, p.Steps, r.Claimed+1)
	}
	return nil
}

// probeLoad holds the run's requests to a limit.
func (m *Machine) probeLoad(ev LoadProbeAsked) {
	if m.State.Over() || m.repeated(ev.ID) {
		return
	}
	if m.LoadProbe != nil {
		if ev.Request.End {
			m.endLoadProbe("ended by an operator")
		}
		return
	}
	first := rollout.Step(m.Claimed + 1) // what is played for the next one was begun without the limit
	m.LoadProbe = &runstatus.LoadProbe{
		Limit: ev.Request.Limit, FirstStep: first, LastStep: first + rollout.Step(ev.Request.Steps) - 1,
		Since: m.now, Until: m.now.Add(ev.Request.For),
	}
	m.Changes++
	m.note(fmt.Sprintf("probe: at most %d requests in flight per engine until step %d is claimed",
		ev.Request.Limit, m.LoadProbe.LastStep))
}

// overLoadProbe removes the limit of a load probe once its steps were played.
func (m *Machine) overLoadProbe(next func()) {
	p := m.LoadProbe
	switch {
	case p == nil:
	case rollout.Step(m.Claimed) > p.LastStep:
		m.endLoadProbe(fmt.Sprintf("steps %d to %d were played", p.FirstStep, p.LastStep))
	case !m.now.Before(p.Until):
		m.endLoadProbe(fmt.Sprintf("%v are over", p.Until.Sub(p.Since)))
	}
	next()
}

// endLoadProbe takes its limit back.
func (m *Machine) endLoadProbe(why string) {
	m.LoadProbe = nil
	m.Changes++
	m.note("probe over: " + why)
}
