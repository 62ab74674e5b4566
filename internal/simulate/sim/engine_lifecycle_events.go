package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

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
