package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
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

func (e *engine) serves(adapter string) bool { return slices.Contains(e.adapters, adapter) }
