package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/simulate/enginesim/batch"
	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
)

// engine is one engine of the fleet, as the keeper knows it.
type engine struct {
	*pipeline
	id       rollout.EngineID
	model    enginemodel.Engine
	state    engineState
	adapters []string       // that it serves
	loads    []*adapterLoad // under way
}

type engineState uint8

const (
	engineCold engineState = iota
	engineReady
	engineDraining
	engineLost
)

// DefaultMaxInFlight is an engine's limit of requests where nothing is said of it: the fleet's default.
const DefaultMaxInFlight = 256

// startEngines makes the engines that serve from the start, and plans what becomes of them.
func (p *pipeline) startEngines() error {
	n := p.setup.Fleet.Engines
	if p.options.Scaler != nil {
		n = 0
		p.options.Scaler.Begin(&Control{p})
	}
	for range n {
		e, err := p.newEngine()
		if err != nil {
			return err
		}
		p.join(e)
	}
	for i, ev := range p.setup.Fleet.Events {
		if ev.Step == 0 {
			p.agenda.At(ev.At.Std(), classGames, fleetEvents{p}, uint64(i))
			p.planned++
		}
	}
	return nil
}

// newModel makes an engine that is idle.
func (p *pipeline) newModel() (enginemodel.Engine, error) {
	f := &p.setup.Fleet
	factor := cmp.Or(f.TimeFactor, 1)
	if p.options.NewEngine != nil {
		return p.options.NewEngine(len(p.engines))
	}
	if f.CallTime > 0 {
		each := time.Duration(float64(f.CallTime) * factor)
		return enginemodel.NewTimed(f.MaxNumSeqs, func(enginemodel.Call) time.Duration { return each }), nil
	}
	if p.profile == nil {
		profile, err := enginemodel.LoadProfile(f.Profile)
		if err != nil {
			return nil, fmt.Errorf("fleet.profile: %w", err)
		}
		p.profile = profile
	}
	return enginemodel.NewContinuous(p.profile.Cost(1), p.engineLimits(), factor), nil
}

// engineLimits is what one engine can hold: its profile's, as far as the setup says nothing else.
func (p *pipeline) engineLimits() batch.Limits {
	limits := p.profile.Limits()
	limits.Sequences = cmp.Or(p.setup.Fleet.MaxNumSeqs, limits.Sequences)
	if n := p.setup.Fleet.MaxLoRAs; n > 0 {
		limits.Adapters, limits.HostAdapter = n, max(n, limits.HostAdapter)
	}
	return limits
}

// adapterSlots is how many adapters fit into one batch of an engine; 0: not known.
func (p *pipeline) adapterSlots() int {
	if p.profile == nil {
		return p.setup.Fleet.MaxLoRAs
	}
	return p.engineLimits().Adapters
}

// newEngine makes the next engine, which does not serve yet.
func (p *pipeline) newEngine() (*engine, error) {
	model, err := p.newModel()
	if err != nil {
		return nil, err
	}
	e := &engine{pipeline: p, id: p.engineID(len(p.engines)), model: model}
	p.engines = append(p.engines, e)
	p.byID[e.id] = e
	return e, nil
}

// engineID names an engine so that names sort as numbers do.
func (p *pipeline) engineID(no int) rollout.EngineID {
	width := len(fmt.Sprint(p.setup.Fleet.Engines + len(p.setup.Fleet.Events) - 1))
	if p.options.Scaler != nil {
		width = 5
	}
	return rollout.EngineID(fmt.Sprintf("engine-%0*d", width, no))
}

// fleetEvents is what happens to engines: the place of an event, or that of an engine whose cold start is over.
type fleetEvents struct{ *pipeline }

const coldStartOver uint64 = 1 << 32

// Happen lets an event happen that was planned for a time.
func (f fleetEvents) Happen(_ time.Duration, arg uint64) {
	f.planned--
	if arg&coldStartOver != 0 {
		f.join(f.engines[arg&^coldStartOver])
		return
	}
	f.happens(f.setup.Fleet.Events[arg])
}

// eventsAhead reports whether something will still happen to engines at a time that is known.
func (p *pipeline) eventsAhead() bool { return p.planned > 0 }

// stepClaimed lets the events happen that were planned for a step.
func (p *pipeline) stepClaimed(step rollout.Step) {
	for _, ev := range p.setup.Fleet.Events {
		if ev.Step > 0 && ev.Step == step {
			p.happens(ev)
		}
	}
}

func (p *pipeline) happens(ev FleetEvent) {
	p.moved()
	if ev.Kind == AddEngine {
		e, err := p.newEngine()
		if err != nil {
			p.fail(err)
			return
		}
		p.agenda.At(p.now()+p.setup.Fleet.ColdStart.Std(), classGames, fleetEvents{p},
			coldStartOver|uint64(len(p.engines)-1))
		p.planned++
		p.note(diagnosis.EventOther, fmt.Sprintf("engine %s is starting", e.id))
		return
	}
	if ev.Engine < 0 || ev.Engine >= len(p.engines) {
		p.fail(fmt.Errorf("fleet.events: there is no engine %d when it is to %s", ev.Engine, ev.Kind))
		return
	}
	e := p.engines[ev.Engine]
	switch ev.Kind {
	case LoseEngine:
		p.lose(e)
	case DrainEngine:
		e.state = engineDraining
		p.fleet.DrainEngine(e.id)
		p.note(diagnosis.EventEngineLeft, fmt.Sprintf("engine %s is %s", e.id, enginestate.EngineDraining))
	case SlowEngine:
		p.fleet.Slow(e.id, ev.Factor)
		p.note(diagnosis.EventOther, fmt.Sprintf("engine %s takes %g times as long", e.id, ev.Factor))
	}
}

// join lets an engine serve. It gets the adapters that all must serve.
func (p *pipeline) join(e *engine) {
	if e.state != engineCold {
		return
	}
	p.moved()
	e.state = engineReady
	limit := cmp.Or(p.setup.Fleet.MaxInFlight, DefaultMaxInFlight)
	p.fleet.AddEngine(e.id, e.model, limit, p.adapterSlots(), []string{p.setup.Model})
	if p.now() > 0 {
		p.note(diagnosis.EventEngineJoined, fmt.Sprintf("engine %s is %s", e.id, enginestate.EngineReady))
	}
	for _, adapter := range p.wanted {
		e.load(adapter, nil)
	}
}

// lose takes an engine away, with the loads that go on there.
func (p *pipeline) lose(e *engine) {
	if e.state == engineCold || e.state == engineLost {
		e.state = engineLost
		return
	}
	e.state, e.adapters, e.loads = engineLost, nil, nil
	p.fleet.LoseEngine(e.id)
	p.note(diagnosis.EventEngineLost, fmt.Sprintf("engine %s is %s", e.id, enginestate.EngineLost))
	for _, pub := range slices.Clone(p.publications) {
		if slices.Contains(pub.asked, e) {
			if _, has := pub.seconds[e.id]; !has {
				pub.lost[e.id] = true
			}
			pub.judge(false)
		}
	}
}

func (e *engine) serves(adapter string) bool { return slices.Contains(e.adapters, adapter) }

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
