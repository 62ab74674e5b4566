package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/run/runmachine"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
)

// Bounds of loads, as the run workflow has them: when none has loaded an adapter after firstLoad, engines are chosen
// again; a publication that finds no engine tries for as long as publishPatience.
const (
	firstLoad       = time.Minute
	publishPatience = 90 * time.Second
	longestPause    = 10 * time.Second
)

// publication is the loads of one version that is being published, or of a fixed policy.
type publication struct {
	*pipeline
	id       runmachine.CommandID
	adapter  string
	pinned   bool // of a fixed policy, for which nobody waits any longer than for one round
	timer    *virtualtime.Timer
	pausing  bool
	deadline time.Duration
	pause    time.Duration

	asked   []*engine
	waited  []*engine // of these; the others lack adapters of the run as it is
	seconds map[rollout.EngineID]float64
	lost    map[rollout.EngineID]bool
	ended   bool
	result  runmachine.Result // once it is over
}

// adapterLoad is the load of one adapter on one engine.
type adapterLoad struct {
	engine  *engine
	adapter string
	began   time.Duration
	of      *publication // nil: the keeper's
}

// load brings an adapter on the engines for a publication.
func (p *pipeline) load(id runmachine.CommandID, adapter string) runmachine.Result {
	return p.begin(&publication{id: id, adapter: adapter, deadline: p.now() + publishPatience})
}

// pin brings a fixed policy on the engines. Those that cannot load it now get it from the keeper.
func (p *pipeline) pin(id runmachine.CommandID, policy runspec.FixedPolicy) runmachine.Result {
	adapter := policy.ServedAs(p.setup.Name, p.setup.Model)
	p.wanted = append(p.wanted, adapter)
	return p.begin(&publication{id: id, adapter: adapter, pinned: true, deadline: p.now()})
}

// begin begins a publication. It is answered later.
func (p *pipeline) begin(pub *publication) runmachine.Result {
	pub.pipeline, pub.pause, pub.timer = p, time.Second, p.agenda.Timer(classRun, pub, 0)
	p.publications = append(p.publications, pub)
	pub.round()
	return nil
}

// stopLoading ends the loads of a version that is being published.
func (p *pipeline) stopLoading(adapter string) {
	for _, pub := range p.publications {
		if pub.adapter == adapter {
			pub.deadline = p.now()
			pub.pausing = true
			pub.timer.Set(p.now())
		}
	}
}

// round asks all engines to load the adapter.
func (u *publication) round() {
	u.pausing = false
	u.asked, u.waited = u.asked[:0], u.waited[:0]
	u.seconds, u.lost = map[rollout.EngineID]float64{}, map[rollout.EngineID]bool{}
	for _, e := range u.engines {
		if e.state != engineReady {
			continue
		}
		u.asked = append(u.asked, e)
		if !e.lacks(u.adapter) {
			u.waited = append(u.waited, e)
		}
	}
	if len(u.waited) == 0 {
		u.waited = append(u.waited, u.asked...)
	}
	u.timer.Set(u.now() + firstLoad)
	for _, e := range u.asked {
		if e.serves(u.adapter) {
			u.seconds[e.id] = 0
			continue
		}
		e.load(u.adapter, u)
	}
	u.judge(false)
}

// Happen ends a round that takes too long, or begins the next one.
func (u *publication) Happen(time.Duration, uint64) {
	switch {
	case u.ended:
		u.run.answer(u.id, u.result)
	case u.pausing && u.now() < u.deadline:
		u.round()
	case u.pausing:
		u.end(false)
	default:
		u.judge(true)
	}
}

// enough is how many engines must serve the adapter; 0: all that are waited for, or as many as loaded it in time.
func (u *publication) enough() int { return min(u.setup.Adapters.Quorum, len(u.asked)) }

// judge ends the round when nothing more is to be waited for.
func (u *publication) judge(late bool) {
	if u.ended || u.pausing {
		return
	}
	loaded := len(u.seconds)
	missing := slices.ContainsFunc(u.waited, func(e *engine) bool {
		_, has := u.seconds[e.id]
		return !has && !u.lost[e.id]
	})
	over := late || loaded+len(u.lost) == len(u.asked)
	switch {
	case u.enough() > 0:
		over = over || loaded >= u.enough()
	case loaded > 0:
		over = over || !missing
	}
	if !over {
		return
	}
	if loaded >= max(u.enough(), 1) {
		u.end(true)
		return
	}
	if u.now()+u.pause >= u.deadline {
		u.end(false)
		return
	}
	u.pausing = true
	u.timer.Set(u.now() + u.pause)
	u.pause = min(2*u.pause, longestPause)
}

// loaded hears that one engine has the adapter. Without a quorum the others have some time from the first on.
func (u *publication) loaded(e *engine, seconds float64) {
	u.seconds[e.id] = seconds
	if len(u.seconds) == 1 && u.enough() == 0 && !u.ended && !u.pausing {
		u.timer.Set(u.now() + u.setup.Adapters.Patience())
	}
	u.judge(false)
}

func (u *publication) end(served bool) {
	u.ended = true
	u.timer.Set(u.now()) // answered when what happens now has happened
	u.publications = slices.DeleteFunc(u.publications, func(other *publication) bool { return other == u })
	if u.pinned {
		u.result = runmachine.Pinned{}
		return
	}
	result := runmachine.Loaded{Seconds: u.seconds}
	if !served {
		result.Fault = &runmachine.Fault{Code: rollout.Unavailable,
			Text: fmt.Sprintf("%d of %d engines have loaded it", len(u.seconds), len(u.asked))}
	}
	u.result = result
}

// AdapterLoaded hears from the fleet that an engine has loaded an adapter.
func (p *pipeline) AdapterLoaded(now time.Duration, _ rollout.EngineID, tag uint64) {
	p.agenda.At(now, classGames, loadsEnded{p}, tag)
}

// loadsEnded is what follows from the end of a load, by its tag.
type loadsEnded struct{ *pipeline }

// Happen lets an engine serve what it has loaded.
func (p loadsEnded) Happen(now time.Duration, tag uint64) {
	l := p.loading[tag]
	delete(p.loading, tag)
	if l == nil || l.engine.state == engineLost {
		return
	}
	p.moved()
	seconds := (now - l.began).Seconds()
	p.input.Loads = append(p.input.Loads, diagnosis.AdapterLoad{At: p.at(now), Engine: l.engine.id, Sec: seconds})
	l.engine.take(l)
	if l.of != nil {
		l.of.loaded(l.engine, seconds)
	}
}

// lacks reports whether the engine lacks an adapter that it must serve, apart from one.
func (e *engine) lacks(but string) bool {
	return slices.ContainsFunc(e.wanted, func(w string) bool { return w != but && !e.serves(w) })
}

// load has the engine load an adapter, once.
func (e *engine) load(adapter string, of *publication) {
	if e.serves(adapter) {
		return
	}
	for _, l := range e.loads {
		if l.adapter == adapter {
			l.of = cmp.Or(of, l.of)
			return
		}
	}
	l := &adapterLoad{engine: e, adapter: adapter, began: e.now(), of: of}
	e.loads = append(e.loads, l)
	e.lastLoad++
	e.loading[e.lastLoad] = l
	if e.loadStall > 0 {
		e.fleet.Pause(e.id, true)
		e.agenda.At(e.now()+e.loadStall, classGames, stalledLoad{e, adapter}, e.lastLoad)
		return
	}
	e.fleet.LoadAdapter(e.id, adapter, e.pipeline, e.lastLoad)
}

// take lets the engine serve an adapter that it has loaded.
func (e *engine) take(l *adapterLoad) {
	e.loads = slices.DeleteFunc(e.loads, func(other *adapterLoad) bool { return other == l })
	if e.serves(l.adapter) || e.state != engineReady {
		return
	}
	e.adapters = append(e.adapters, l.adapter)
	e.fleet.SetAdapters(e.id, slices.Clone(e.adapters))
}

// drop lets the engine unload an adapter.
func (e *engine) drop(adapter string) {
	if !e.serves(adapter) {
		return
	}
	e.adapters = slices.DeleteFunc(e.adapters, func(a string) bool { return a == adapter })
	if e.state == engineReady {
		e.fleet.SetAdapters(e.id, slices.Clone(e.adapters))
	}
}
