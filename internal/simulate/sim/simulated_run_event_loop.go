package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/engine/dispatch"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/run/runmachine"
	"github.com/millrace/millrace/internal/simulate/sim/buffermodel"
	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
	"github.com/millrace/millrace/internal/simulate/sim/serving"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
	"github.com/millrace/millrace/internal/simulate/sim/workload"
)

// What happens at the same time happens in this order, after what engines and dispatcher do: first games and groups
// end, then the run hears of it, and last the trainer looks whether its batch is there.
const (
	classGames = serving.ClassWake + 16 + iota
	classRun
	classTrainer
	// ClassScaling is of what a Scaler does.
	ClassScaling
)

// startOfRun is the time of day at which a simulated run begins.
var startOfRun = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// sampleEvery is how often the fleet's keeper asks engines what load they have.
const sampleEvery = time.Second

// retainedSteps is how many completed steps' groups the service keeps.
const retainedSteps = 2

// maxQueued bounds the requests that wait in the dispatchers of all workers together, far beyond what a run may have in
// play.
const maxQueued = 1 << 22

// pipeline is one simulated run. Its parts are in files of their own: what the run's machine asks for in
// perform_run_machine_commands.go, its groups and games in play_one_group_until_commit.go and
// play_one_game_phase_by_phase.go, the trainer in train_steps.go, publications in
// load_adapters_on_simulated_engines.go, the fleet in engine_lifecycle_events.go.
type pipeline struct {
	setup   Setup
	options Options
	agenda  *virtualtime.Agenda
	fleet   *serving.Fleet
	games   workload.Games
	buffer  *buffermodel.Buffer

	engines      []*engine
	byID         map[rollout.EngineID]*engine
	wanted       []string // adapters that every engine must serve
	newest       rollout.PolicyVersion
	loading      map[uint64]*adapterLoad // by tag
	lastLoad     uint64
	profile      *enginemodel.Profile // of the engines; nil: they have none
	planned      int                  // events of engines that are still to happen
	publications []*publication       // under way

	run     runLine
	groups  map[rollout.GroupSeq]*group // in play
	slots   gameSlots
	spare   []*game                // to be used again
	begun   map[dispatch.ID]*group // of requests that wait: the group that begins with them
	trainer trainer

	loadStall  time.Duration // of an engine, before each load
	slowClaim  time.Duration // beside the setup's overhead: of every claim
	slowAnswer time.Duration // of a claim, on its way to the trainer
	lastChange int           // of the spec

	status   runstatus.RunStatus
	input    diagnosis.Input
	atGrant  serving.Totals
	grantAt  time.Duration
	finished int64 // games
	trained  int64 // tokens
	answers  int64 // of requests
	barren   int   // groups that came to nothing since one did not
	progress time.Duration
	stopped  bool // so many steps as were asked for are done
	err      error
}

// newPipeline is a run before its first event.
func newPipeline(s Setup, o Options) (*pipeline, error) {
	p := &pipeline{
		setup: s, options: o, agenda: virtualtime.NewAgenda(),
		byID: map[rollout.EngineID]*engine{}, loading: map[uint64]*adapterLoad{},
		groups: map[rollout.GroupSeq]*group{}, begun: map[dispatch.ID]*group{},
	}
	if p.games = o.Games; p.games == nil {
		var err error
		if p.games, err = Games(s, o.Environment); err != nil {
			return nil, err
		}
	}
	p.buffer = buffermodel.New(s.Buffer, s.Steps, retainedSteps, p.groupDropped)
	every := sampleEvery
	if s.Fleet.CallTime > 0 || o.NewEngine != nil {
		every = 0 // such an engine has nothing to tell
	}
	p.fleet = serving.New(p.agenda, serving.Config{
		Scheduler:    dispatch.Config{MaxQueued: maxQueued, MaxSessions: maxQueued},
		CallOverhead: s.Overheads.Call.Std(), SampleEvery: every, Start: startOfRun, Log: p.dispatched,
	})
	p.fleet.Rules(s.Name, s.Dispatch)
	p.slots = gameSlots{limit: s.Overheads.Slots}
	p.input = diagnosis.Input{Spec: s.Spec, Loads: []diagnosis.AdapterLoad{}}
	p.run = runLine{pipeline: p, machine: runmachine.New(runmachine.NewRun(s.Spec, startOfRun))}
	p.run.timer = p.agenda.Timer(classRun, &p.run, 0)
	p.trainer.begin(p)
	return p, p.startEngines()
}

// at is a time of day.
func (p *pipeline) at(now time.Duration) time.Time { return startOfRun.Add(now) }

func (p *pipeline) now() time.Duration { return p.agenda.Now() }

// fail ends the simulation.
func (p *pipeline) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

// contextEvery is after how many events it is looked whether the simulation is still wanted.
const contextEvery = 4096

// maxIdle is how much time may pass without a sign that the run goes on; without engines much less is enough.
const (
	maxIdle          = 7 * 24 * time.Hour
	maxWithoutEngine = time.Hour
)

// play lets everything happen until the run is over.
func (p *pipeline) play(ctx context.Context) error {
	p.run.handle(runmachine.Began{New: true})
	p.trainer.ask(0)
	for i := 0; !p.over(); i++ {
		if i%contextEvery == 0 {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("simulated up to %v, step %d: %w", p.now().Round(time.Second), p.trainer.step, err)
			}
		}
		if !p.agenda.Step() {
			return p.stuck("nothing is left that could happen")
		}
		if p.options.check != nil {
			p.options.check(p)
		}
		if idle := p.now() - p.progress; idle > maxWithoutEngine && !p.eventsAhead() {
			if p.serving() == 0 {
				return p.stuck("no engine serves, and none will")
			}
			if idle > maxIdle {
				return p.stuck(fmt.Sprintf("nothing has moved for %v", idle.Round(time.Hour)))
			}
		}
	}
	return p.err
}

func (p *pipeline) over() bool { return p.err != nil || p.stopped || p.run.ended() }

// moved notes that the run goes on.
func (p *pipeline) moved() { p.progress = p.now() }

// stuck says why a run never ends.
func (p *pipeline) stuck(why string) error {
	c := p.buffer.Counts()
	if n := p.fleet.Totals().TimedOut; n > p.answers {
		why += fmt.Sprintf("; %d requests ended without an answer after timeouts.completion, %v", n,
			p.setup.Timeouts.Completion)
	}
	return fmt.Errorf("the run stands still at step %d, %v after its start: %s; %d groups are queued, %d in flight, "+
		"%d ready, %d engines serve", p.trainer.step, p.now().Round(time.Second), why, c.Queued, c.InFlight, c.Ready,
		p.serving())
}

// serving is how many engines take requests.
func (p *pipeline) serving() int {
	n := 0
	for _, e := range p.engines {
		if e.state == engineReady {
			n++
		}
	}
	return n
}

// dispatched learns from the dispatcher when the first request of a group goes to an engine.
func (p *pipeline) dispatched(now time.Time, event dispatch.Event, commands []dispatch.Command) {
	switch ev := event.(type) {
	case dispatch.Submit:
		if g := p.groups[ev.Episode.Seq]; g != nil && !g.inFlight {
			p.begun[ev.ID] = g
		}
	case dispatch.Cancel:
		delete(p.begun, ev.ID)
	case dispatch.TryEnded, dispatch.EngineUp, dispatch.EngineSampled, dispatch.EngineDrain, dispatch.EngineDown,
		dispatch.EngineProbed, dispatch.RunRules, dispatch.RunOver, dispatch.Tick:
	}
	if len(p.begun) > 0 {
		for _, c := range commands {
			p.noteSend(c)
		}
	}
	if p.options.Log != nil {
		p.options.Log(now, event, commands)
	}
}

func (p *pipeline) noteSend(c dispatch.Command) {
	switch c := c.(type) {
	case dispatch.Send:
		g := p.begun[c.ID]
		delete(p.begun, c.ID)
		if g != nil && !g.inFlight {
			g.inFlight = true
			p.buffer.Start(g.seq)
		}
	case dispatch.Reject:
		delete(p.begun, c.ID)
	case dispatch.Abandon, dispatch.Probe, dispatch.Opened, dispatch.Closed, dispatch.Wake:
	}
}

// groupDropped hears of every group that the buffer drops.
func (p *pipeline) groupDropped(_ rollout.GroupSeq, code rollout.Code) {
	p.input.Drops = append(p.input.Drops, diagnosis.Drop{At: p.at(p.now()), Code: code})
}

func (p *pipeline) note(kind diagnosis.EventKind, text string) {
	p.input.Events = append(p.input.Events, diagnosis.Event{At: p.at(p.now()), Kind: kind, Text: text})
}
