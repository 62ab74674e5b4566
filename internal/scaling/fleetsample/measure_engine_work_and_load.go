package fleetsample

import (
	"math"

	"github.com/millrace/millrace/internal/engine/capacity"
	"github.com/millrace/millrace/internal/engine/fleet"

	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling/terms"
)

// addWork adds what the engines of each model have done to what is known of them.
func (l *look) addWork(m *memory, saturation float64) {
	models := map[string]modelMemory{}
	for _, model := range l.models(m) {
		known, is := m.Models[model]
		if !is {
			known.Rate.Read(known.Sum)
		}
		done := l.workOf(model)
		if done.Sec > 0 {
			share := max(saturation, done.Crowded/done.Sec)
			if done.Limit > 0 {
				share = max(share, (done.Running+done.Waiting)/done.Limit)
			}
			if by, said := l.workersShare(m, model); said {
				share = max(share, by)
			}
			known.add(done, min(1, share))
		}
		models[model] = known
	}
	m.Models = models
}

// workOf sums up the work of a model's engines, with the time of the longest.
func (l *look) workOf(model string) (sum engineWork) {
	for _, e := range l.engines {
		if w, did := l.work[e.ID]; did && serves(e, model) {
			sum.Work = sum.Work.Plus(w)
			sum.longest = max(sum.longest, w.Sec)
		}
	}
	return sum
}

// engineWork is the work of several engines.
type engineWork struct {
	fleet.Work
	longest float64
}

// add counts work that was done with such a share of the slots in use.
func (m *modelMemory) add(w engineWork, share float64) {
	s := m.Sum
	m.Sum = terms.Counters{
		Sec: s.Sec + w.longest, EngineSec: s.EngineSec + w.Sec, BusySec: s.BusySec,
		InFlightSec: s.InFlightSec + share*w.Limit, LimitSec: s.LimitSec + w.Limit,
		Input: s.Input + int64(w.Input), Cached: s.Cached + int64(w.Cached), Output: s.Output + int64(w.Output),
	}
	m.Rate.Read(m.Sum)
	keeps := math.Exp(-w.longest / waitMemory)
	m.RunningSec, m.WaitingSec = keeps*m.RunningSec+w.Running, keeps*m.WaitingSec+w.Waiting
}

// waitMemory is for how many seconds waiting times inside of engines are remembered: a group that is ready now waited
// while it was played.
const waitMemory = 60

// waitShare is the share of their time at the engines that requests have waited there.
func (m *modelMemory) waitShare() float64 {
	if m.WaitingSec <= 0 {
		return 0
	}
	return m.WaitingSec / (m.RunningSec + m.WaitingSec)
}

// noteCrowded notes the share of the engines' time in which requests waited inside of them: they take no more at once,
// however many slots they are said to have. In a window that is shorter than a stretch of their work, it is that of the
// newest stretch.
func (l *look) noteCrowded(m *memory) {
	sum := fleet.Work{}
	for _, e := range l.engines {
		sum = sum.Plus(l.work[e.ID])
	}
	switch {
	case sum.Sec > 0:
		m.Crowded = sum.Crowded / sum.Sec
	case l.newest != m.Work:
		m.Crowded = 0 // there was a queue, and none of these engines has worked since
	}
}

// workersShare is the share of the engines' slots in use by the workers' own account, in the mean of the window's two
// ends. Engines do not see the requests that are on their way; where these are many, full slots look as if there were
// room.
func (l *look) workersShare(m *memory, models ...string) (share float64, known bool) {
	slots, requests := 0, 0.0
	for _, model := range models {
		before, is := m.Models[model]
		if !is {
			continue
		}
		limit := 0
		for _, e := range l.engines {
			if e.State == enginestate.EngineReady && serves(e, model) {
				limit += e.Limit()
			}
		}
		slots += limit
		requests += (float64(min(limit, before.InFlight)) + float64(min(limit, l.inFlight(model)))) / 2
	}
	if slots == 0 {
		return 0, false
	}
	return requests / float64(slots), true
}

// inFlight is the requests at the engines of a model by the workers' account.
func (l *look) inFlight(model string) int {
	sum := 0
	for i := range l.runs {
		if spec := &l.runs[i].status.Spec; spec.Model == model {
			for j := range l.workers {
				sum += l.workers[j].Requests[spec.Name].InFlight
			}
		}
	}
	return sum
}

func (l *look) noteInFlight(m *memory) {
	for model, known := range m.Models {
		known.InFlight = l.inFlight(model)
		m.Models[model] = known
	}
}

// serving is how many engines serve a model.
func (l *look) serving(model string) int {
	n := 0
	for _, e := range l.engines {
		if e.State == enginestate.EngineReady && serves(e, model) {
			n++
		}
	}
	return n
}

// fit fits the engines' curve to what each of them did at one load and another.
func (l *look) fit(m *memory) {
	if !l.fits {
		return
	}
	m.FittedAt, m.Curve = l.now, nil
	var seen []capacity.Observation
	for engine, v := range l.views {
		for at, bin := range v.Loads {
			work := bin.OutputTokens + bin.InputTokens/16
			if bin.InFlight > 0 && work > 0 {
				seen = append(seen, capacity.Observation{
					Series: engine, Cluster: at, InFlight: bin.InFlight, Sec: bin.InFlight * bin.Sec / work, Weight: bin.Sec,
				})
			}
		}
	}
	if fit := capacity.Fitted(seen, l.load()); fit.Decided() {
		m.Curve = &fit.Curve
	}
}

// load is the requests in flight at an engine, in the mean of the window.
func (l *look) load() float64 { return l.fleet.InFlight }

// saturation is how near the engines are to doing no more; 0: not known.
func (l *look) saturation(m *memory) float64 {
	if m.Curve == nil {
		return 0
	}
	return 1 - m.Curve.Rise(l.load())
}
