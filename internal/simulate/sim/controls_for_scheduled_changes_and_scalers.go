package sim

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/run/runmachine"
	"github.com/millrace/millrace/internal/simulate/sim/serving"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
	"github.com/millrace/millrace/internal/simulate/sim/workload"
)

// Change is something that happens to a run while it is played, and that a setup's file has no key for: faults of all
// kinds, for trials of diagnosis.
type Change struct {
	Step rollout.Step // happens when this step is claimed
	Do   func(*Control)
}

// Scaler decides how many engines there are. It is told of what it decides by, and plans on the agenda when it does.
type Scaler interface {
	Begin(*Control)
	Claimed(waited time.Duration) // by the trainer
	StepDone(*steprecord.StepRecord)
	GroupReady(*steprecord.GroupView)
}

// Control is what a Change or a Scaler may do and see. What it sets holds from then on.
type Control struct{ *pipeline }

func (p *pipeline) doChanges(step rollout.Step) {
	for _, c := range p.options.Changes {
		if c.Step == step {
			c.Do(&Control{p})
		}
	}
}

// Agenda is when what happens.
func (c *Control) Agenda() *virtualtime.Agenda { return c.agenda }

// Fleet is the dispatcher and its engines.
func (c *Control) Fleet() *serving.Fleet { return c.fleet }

// Setup is what the run is made of, as changed so far.
func (c *Control) Setup() *Setup { return &c.setup }

// Time is a time of day.
func (c *Control) Time(now time.Duration) time.Time { return c.at(now) }

// Waits is whether the trainer waits for its batch, and since when.
func (c *Control) Waits() (since time.Duration, waits bool) {
	return c.trainer.asked, c.trainer.state == trainerAsks
}

// Records are the completed steps.
func (c *Control) Records() []steprecord.StepRecord { return c.trainer.records }

// ReadyGroups is how many groups the trainer could claim.
func (c *Control) ReadyGroups() int { return int(c.buffer.Counts().Ready) }

// EngineID names an engine by its number.
func (c *Control) EngineID(no int) rollout.EngineID { return c.engineID(no) }

// StartEngine begins the cold start of the next engine, which ends with Join or Forget; false: the run has failed.
func (c *Control) StartEngine() (no int, ok bool) {
	if _, err := c.newEngine(); err != nil {
		c.fail(err)
		return 0, false
	}
	c.planned++
	return len(c.engines) - 1, true
}

// Join lets a started engine serve.
func (c *Control) Join(no int) {
	c.planned--
	c.join(c.engines[no])
}

// Forget gives up an engine that does not serve yet, or not any more.
func (c *Control) Forget(no int) {
	if c.engines[no].state == engineCold {
		c.planned--
	}
	c.engines[no].state = engineLost
}

// Happens lets an event happen to an engine.
func (c *Control) Happens(ev FleetEvent) { c.happens(ev) }

// All is the numbers of all engines.
func (c *Control) All() []int {
	var out []int
	for no := range c.engines {
		out = append(out, no)
	}
	return out
}

// Games changes the distribution from which the games of groups that are not begun yet are drawn.
func (c *Control) Games(change func(*GameDistribution)) {
	d := *c.setup.Workload.Distribution
	change(&d)
	c.setup.Workload.Distribution = &d
	c.games = workload.NewDistributedGames(d, uint64(c.setup.Seed))
}

// Places changes how many games workers play at once.
func (c *Control) Places(n int) {
	c.slots.limit = n
	c.setup.Overheads.Slots = n
	c.slots.give()
}

// Operator changes the run's spec, as the text says.
func (c *Control) Operator(text string, change func(*runspec.Spec)) {
	change(&c.setup.Spec)
	c.lastChange++
	c.input.Spec = c.setup.Spec
	c.buffer.SetLimits(c.setup.Buffer)
	c.fleet.Rules(c.setup.Name, c.setup.Dispatch)
	c.run.handle(runmachine.Changed{ID: fmt.Sprintf("change/%d", c.lastChange), Spec: c.setup.Spec, Text: text})
}

// Slow multiplies the time of the work of engines; noticed: the fleet's keeper says so.
func (c *Control) Slow(factor float64, noticed bool, engines ...int) {
	for _, no := range engines {
		e := c.engines[no]
		c.fleet.Slow(e.id, factor)
		switch {
		case noticed && factor > 1:
			c.note(diagnosis.EventOther, fmt.Sprintf("engine %s is slow: its output is less than half of the others'", e.id))
		case noticed:
			c.note(diagnosis.EventOther, fmt.Sprintf("engine %s is no longer slow", e.id))
		}
	}
}

// Lose takes engines away.
func (c *Control) Lose(engines ...int) {
	for _, no := range engines {
		c.lose(c.engines[no])
	}
}

// Drain takes engines away as an operator does.
func (c *Control) Drain(engines ...int) {
	for _, no := range engines {
		c.happens(FleetEvent{Kind: DrainEngine, Engine: no})
	}
}

// Return brings lost engines back, empty.
func (c *Control) Return(engines ...int) {
	for _, no := range engines {
		e := c.engines[no]
		model, err := c.newModel()
		if err != nil {
			c.fail(err)
			return
		}
		e.model, e.state = model, engineCold
		c.join(e)
	}
}

// StallLoads has every adapter load keep its engine from generating for so long before.
func (c *Control) StallLoads(d time.Duration) { c.loadStall = d }

// Handover has a claim take so long before it is answered, and its answer so long to reach the trainer.
func (c *Control) Handover(claim, answer time.Duration) { c.slowClaim, c.slowAnswer = claim, answer }

// stalledLoad is a load that begins when its engine's stall is over.
type stalledLoad struct {
	*engine
	adapter string
}

// Happen lets the engine generate, and load.
func (s stalledLoad) Happen(_ time.Duration, tag uint64) {
	if s.state != engineReady {
		return
	}
	s.fleet.Pause(s.id, false)
	s.fleet.LoadAdapter(s.id, s.adapter, s.pipeline, tag)
}
