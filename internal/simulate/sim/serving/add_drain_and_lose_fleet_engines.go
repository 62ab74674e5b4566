package serving

import (
	"maps"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
)

// engine is one engine of the fleet.
type engine struct {
	fleet *Fleet
	id    rollout.EngineID
	model enginemodel.Engine
	timer *virtualtime.Timer // of the model's next report

	up       dispatch.EngineUp // as the scheduler was told last
	draining bool
	lost     bool
	inFlight int

	call   [1]enginemodel.Call // being submitted
	tokens int64               // that it had worked on at the last sample
	lifeAt time.Time
	window engineWindow
}

// AddEngine lets an engine take requests for the base models now, limit at a time. Slots is how many adapters fit into
// one of its batches; 0: not known. An engine that is there under the same name is lost.
func (f *Fleet) AddEngine(id rollout.EngineID, model enginemodel.Engine, limit, slots int, models []string) {
	f.LoseEngine(id)
	e := &engine{
		fleet: f, id: id, model: model,
		up:     dispatch.EngineUp{ID: id, Limit: limit, Models: slices.Clone(models), Slots: slots},
		window: engineWindow{at: f.agenda.Now()},
	}
	e.timer = f.agenda.Timer(ClassEngine, e, 0)
	f.engines[id] = e
	f.order = append(f.order, e)
	f.totals.add(f.agenda.Now(), counts{engines: 1, limit: limit})
	f.handle(e.up)
}

// SetAdapters says which adapters an engine serves from now on. It says nothing of an engine that takes no requests.
func (f *Fleet) SetAdapters(id rollout.EngineID, adapters []string) {
	if e := f.engines[id]; e != nil && !e.draining {
		e.up.Adapters = slices.Clone(adapters)
		f.handle(e.up)
	}
}

// LoadAdapter has an engine load an adapter, and tells when it has, unless the engine is lost before. It does not serve
// it before SetAdapters says so.
func (f *Fleet) LoadAdapter(id rollout.EngineID, adapter string, l Loader, tag uint64) {
	if e := f.engines[id]; e != nil {
		f.lastLoad++
		f.loads[f.lastLoad] = adapterLoad{engine: e, loader: l, tag: tag}
		e.model.Load(f.agenda.Now(), f.lastLoad, adapter)
		f.collect(f.agenda.Now(), e)
	}
}

// Has reports whether an engine is there: it takes requests, or has some that it took before it was drained.
func (f *Fleet) Has(id rollout.EngineID) bool { return f.engines[id] != nil }

// DrainEngine lets an engine finish what it has and gives it nothing more.
func (f *Fleet) DrainEngine(id rollout.EngineID) {
	if e := f.engines[id]; e != nil && !e.draining {
		f.close(e)
		f.handle(dispatch.EngineDrain{ID: id})
		f.forgetIfEmpty(e)
	}
}

// LoseEngine takes an engine away with all it has; that is dispatched again elsewhere.
func (f *Fleet) LoseEngine(id rollout.EngineID) {
	e := f.engines[id]
	if e == nil {
		return
	}
	if !e.draining {
		f.close(e)
	}
	e.lost = true
	e.timer.Stop()
	maps.DeleteFunc(f.loads, func(_ uint64, l adapterLoad) bool { return l.engine == e })
	f.handle(dispatch.EngineDown{ID: id})
	f.forgetEngine(e)
}

// close ends the time for which an engine takes requests.
func (f *Fleet) close(e *engine) {
	e.draining = true
	now := f.agenda.Now()
	f.collect(now, e)
	stats := e.model.Stats()
	f.totals.BusySec += stats.Busy.Seconds()
	f.totals.Worked.add(stats)
	f.totals.add(now, counts{engines: -1, limit: -e.up.Limit})
	f.order = slices.DeleteFunc(f.order, func(o *engine) bool { return o == e })
}

// forgetIfEmpty drops a drained engine that has finished what it had.
func (f *Fleet) forgetIfEmpty(e *engine) {
	if e.draining && !e.lost && e.inFlight == 0 {
		e.lost = true
		e.timer.Stop()
		f.forgetEngine(e)
	}
}

func (f *Fleet) forgetEngine(e *engine) {
	if f.engines[e.id] == e {
		delete(f.engines, e.id)
	}
}

// Slow multiplies the time of an engine's work from now on.
func (f *Fleet) Slow(id rollout.EngineID, factor float64) {
	if e := f.engines[id]; e != nil {
		e.model.SetSlow(f.agenda.Now(), factor)
		f.collect(f.agenda.Now(), e)
	}
}

// Pause keeps an engine that batches continuously from generating, or lets it go on.
func (f *Fleet) Pause(id rollout.EngineID, paused bool) {
	e := f.engines[id]
	if e == nil {
		return
	}
	if model, can := e.model.(interface{ SetPaused(time.Duration, bool) }); can {
		model.SetPaused(f.agenda.Now(), paused)
		f.collect(f.agenda.Now(), e)
	}
}

// callOf is a request as its engine gets it now.
func (e *engine) callOf(q *request) enginemodel.Call {
	q.inside = true
	adapter := q.Model
	if slices.Contains(e.up.Models, adapter) {
		adapter = ""
	}
	return enginemodel.Call{ID: uint64(q.id), Adapter: adapter, Prompt: q.Prompt, Output: q.Output, Shared: q.Shared}
}

// submit gives an engine a request that has come to it.
func (f *Fleet) submit(now time.Duration, e *engine, q *request) {
	e.call[0] = e.callOf(q)
	if err := e.model.Submit(now, e.call[:]); err != nil {
		f.answers(now, q, dispatch.Refused)
	}
	f.collect(now, e)
}

// Happen takes in what the engine has done.
func (e *engine) Happen(now time.Duration, _ uint64) { e.fleet.collect(now, e) }

// probe asks an engine for its health.
type probe struct{ of *engine }

// Happen answers it. An engine that is there is healthy; one that is lost does not answer.
func (p probe) Happen(time.Duration, uint64) {
	if e := p.of; !e.lost {
		e.fleet.handle(dispatch.EngineProbed{ID: e.id, OK: true})
	}
}

// collect takes in what an engine has done up to now, and looks when it will have done more.
func (f *Fleet) collect(now time.Duration, e *engine) {
	for _, ev := range e.model.Advance(now) {
		switch ev.Kind {
		case enginemodel.Ended:
			if q := f.requests[dispatch.ID(ev.ID)]; q != nil && q.engine == e && q.inside {
				q.cached = ev.Cached
				f.answers(ev.At, q, dispatch.Served)
			}
		case enginemodel.Loaded:
			f.agenda.At(now, ClassEngine, (*loadHandler)(f), ev.ID)
		}
	}
	if at, ok := e.model.Next(); ok {
		e.timer.Set(at)
	} else {
		e.timer.Stop()
	}
}

type loadHandler Fleet

// Happen tells that an adapter is loaded.
func (h *loadHandler) Happen(now time.Duration, id uint64) {
	f := (*Fleet)(h)
	if l, ok := f.loads[id]; ok {
		delete(f.loads, id)
		l.loader.AdapterLoaded(now, l.engine.id, l.tag)
	}
}

// adapterLoad is who waits for an adapter load, and where.
type adapterLoad struct {
	engine *engine
	loader Loader
	tag    uint64
}

// Loader hears of adapter loads that it asked for.
type Loader interface {
	AdapterLoaded(now time.Duration, engine rollout.EngineID, tag uint64)
}
