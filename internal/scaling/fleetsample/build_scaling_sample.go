package fleetsample

import (
	"maps"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/scaling"
)

// look is the change of a service since the last sample.
type look struct {
	now      time.Time
	engines  []enginestate.Engine
	adapters int // that every engine must load
	workers  []enginestate.Worker
	work     map[rollout.EngineID]fleet.Work
	newest   string // stretch of work
	fleet    steprecord.FleetView
	runs     []runLook
	// views is what engines did at which load, where the curve is to be fitted.
	fits  bool
	views []enginestate.EngineView
}

// sample makes a sample of a look, and remembers what the next one needs.
func (l *look) sample(m *memory) scaling.Sample {
	s := scaling.Sample{
		At: l.now, Engines: Members(l.engines), Adapters: l.adapters, LoadSec: l.loadSec(), Outstanding: l.outstanding(),
		Slots: l.slots(), SlotShare: min(1, l.fleet.SlotShare), BusyShare: min(1, l.fleet.BusyShare),
		Queued: l.fleet.QueuedRequests, Runs: []scaling.Run{},
	}
	if !m.At.IsZero() {
		s.Sec = max(0, l.now.Sub(m.At).Seconds())
	}
	l.fit(m)
	s.Saturation = l.saturation(m)
	l.addWork(m, s.Saturation)
	l.noteCrowded(m)
	s.Saturation = max(s.Saturation, m.Crowded)
	if share, known := l.workersShare(m, l.models(m)...); known {
		s.SlotShare = max(s.SlotShare, share)
	}
	runs := map[rollout.RunName]runMemory{}
	for i := range l.runs {
		r := &l.runs[i]
		known := m.Runs[r.status.Spec.Name]
		model := m.Models[r.status.Spec.Model]
		if l.serving(r.status.Spec.Model) == 0 {
			known.Unserved = l.now
		}
		r.learn(&known, model.waitShare())
		s.Runs = append(s.Runs, l.run(r, &known, m))
		runs[r.status.Spec.Name] = known
	}
	m.Runs = runs
	l.noteInFlight(m)
	m.At, m.Work = l.now, l.newest
	return s
}

// Members counts the engines of a fleet by state. Lost and quarantined ones do not count: they may never come back.
func Members(engines []enginestate.Engine) scaling.Engines {
	var n scaling.Engines
	for _, e := range engines {
		switch e.State {
		case enginestate.EngineStarting, enginestate.EngineLoading:
			n.Starting++
		case enginestate.EngineReady:
			n.Ready++
		case enginestate.EngineDraining:
			n.Draining++
		case enginestate.EngineQuarantined, enginestate.EngineLost:
		}
	}
	return n
}

// Others counts the engines that operators and lists have added. They count towards the wanted number: scaling buys the
// difference between wanted engines and live ones of these, and never stops any of them.
func Others(engines []enginestate.Engine) scaling.Engines {
	return Members(slices.DeleteFunc(slices.Clone(engines), func(e enginestate.Engine) bool {
		return e.Source == fleet.SourceScaling
	}))
}

// loadSec is how long an engine takes to load an adapter, as the newest versions of the runs were loaded.
func (l *look) loadSec() float64 {
	sum, n := 0.0, 0.0
	for i := range l.runs {
		for _, p := range slices.Backward(l.runs[i].status.Policies) {
			if len(p.LoadSec) == 0 {
				continue
			}
			for _, sec := range p.LoadSec {
				sum, n = sum+sec, n+1
			}
			break
		}
	}
	return sum / max(1, n)
}

// outstanding is the requests of all runs, queued or at engines, as the workers have them.
func (l *look) outstanding() int {
	sum := 0
	for i := range l.workers {
		n, _ := l.workers[i].Demand()
		sum += n
	}
	return sum
}

// slots is how many requests an engine is given at once, in the mean.
func (l *look) slots() int {
	sum, n := 0, 0
	for _, e := range l.engines {
		if e.State == enginestate.EngineReady {
			sum, n = sum+e.Limit(), n+1
		}
	}
	return sum / max(1, n)
}

// models is the base models that are in use or in the fleet, by name.
func (l *look) models(m *memory) []string {
	found := map[string]bool{}
	for i := range l.runs {
		found[l.runs[i].status.Spec.Model] = true
	}
	for model := range m.Models {
		for _, e := range l.engines {
			found[model] = found[model] || serves(e, model)
		}
	}
	maps.DeleteFunc(found, func(_ string, used bool) bool { return !used })
	return slices.Sorted(maps.Keys(found))
}

// serves reports whether an engine has a base model. One that does not say may have any.
func serves(e enginestate.Engine, model string) bool {
	return len(e.Models) == 0 || slices.Contains(e.Models, model)
}
