package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/kit/termtext"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/scaling/fleetsample"
	"github.com/millrace/millrace/internal/scaling/provider"
	"github.com/millrace/millrace/internal/scaling/supply"
)

// Scaling holds the activities that scale the fleet. They have their own task queue, for workers whose configuration
// says how to scale: the provider of engines may work only on one host.
type Scaling struct {
	Provider provider.Provider // nil: nothing gets engines, others go by the number that is wanted
	Sampler  Sampler
	Fleet    ScaledFleet
	Now      func() time.Time
	Log      *slog.Logger
}

// Sampler measures what scaling is decided on.
type Sampler interface {
	// Sample is the fleet and its runs since the sample before, which left memory; nil memory: there was none. Its
	// engines are counted from the fleet's members. What it must remember for the next one is JSON and bounded, some
	// KiB: it is kept in a workflow's history.
	Sample(ctx context.Context, memory json.RawMessage) (scaling.Sample, json.RawMessage, error)
}

// ScaledFleet is the part of the fleet's registry that scaling uses.
type ScaledFleet interface {
	Bought(ctx context.Context) (bought []supply.Member, all []enginestate.Engine, err error)
	Removed(ctx context.Context) ([]rollout.EngineID, error)
	AddListed(ctx context.Context, e enginestate.Engine, source string) error
	Drain(ctx context.Context, id rollout.EngineID, now bool) error
	Dismiss(ctx context.Context, id rollout.EngineID) error
	SaveScaling(ctx context.Context, v supply.View) error
	Scaling(ctx context.Context) (v supply.View, scaled bool, err error)
}

// ScalingConfig is the configuration's section, as far as a workflow goes by it.
type ScalingConfig struct {
	Provider string           `json:"provider"`
	Queue    string           `json:"queue"` // of the activities that touch the provider
	Window   rollout.Duration `json:"window"`
	Config   scaling.Config   `json:"config"`
}

// ScalingState is the whole memory of a scaled fleet. It is bounded, and JSON.
type ScalingState struct {
	Machine   *scaling.State           `json:"machine,omitempty"` // nil: nothing was decided yet
	Pool      supply.State             `json:"pool"`
	Memory    json.RawMessage          `json:"memory,omitempty"` // of the sampler
	Sample    scaling.Sample           `json:"sample"`           // the newest
	Decisions []scaling.Decision       `json:"decisions,omitempty"`
	Measured  map[int]scaling.Measured `json:"measured,omitempty"`
}

// ScaleInput is the input of one look at the fleet.
type ScaleInput struct {
	Configured ScalingConfig      `json:"configured"`
	Overrides  scaling.Overrides  `json:"overrides,omitempty"`
	State      ScalingState       `json:"state"`
	UnderWay   []rollout.EngineID `json:"under_way,omitempty"`
	Results    []supply.Result    `json:"results,omitempty"`
}

// ScaleResult is the result of a look.
type ScaleResult struct {
	State    ScalingState       `json:"state"`
	Commands []supply.Command   `json:"commands,omitempty"`
	Decided  []scaling.Decision `json:"decided,omitempty"`
	Measured []scaling.Measured `json:"measured,omitempty"`
	// Troubled says that the provider's trouble began or ended.
	Troubled bool             `json:"troubled,omitempty"`
	LookIn   rollout.Duration `json:"look_in"` // until the next look
	// Overrides are settings that an operator made before the workflow was lost and started again.
	Overrides scaling.Overrides `json:"overrides,omitempty"`
}

// decisionsKept is how many decisions are reported, the newest included.
const decisionsKept = 20

// How long a provider may take to list its engines.
const listTimeout = 30 * time.Second

// ScaleFleet looks at the fleet and at what the provider lists, decides on a sample when one is due, and plans actions
// on engines. It performs none: its plan must be in the workflow's history first. The state it reports is saved
// already, and is saved again later.
func (a *Scaling) ScaleFleet(ctx context.Context, in ScaleInput) (ScaleResult, error) {
	beat := startHeartbeat(ctx, time.Second)
	defer beat.stop()
	l := &scalingLook{Scaling: a, ScaleInput: in, now: a.Now().UTC()}
	if err := l.begin(ctx); err != nil {
		return ScaleResult{}, typed(err)
	}
	if err := l.decide(ctx); err != nil {
		return ScaleResult{}, typed(err)
	}
	if err := l.plan(ctx); err != nil {
		return ScaleResult{}, typed(err)
	}
	return l.result, typed(a.Fleet.SaveScaling(ctx, l.view()))
}

// scalingLook is one look at the fleet.
type scalingLook struct {
	*Scaling
	ScaleInput
	now     time.Time
	machine *scaling.Machine
	pool    *supply.Pool
	bought  []supply.Member
	others  scaling.Engines // bought by nobody
	result  ScaleResult
}

// begin restores the state. If there is none, it starts from the last report: the count of ids given out, engines
// wanted, still there and paid for, and the operator's settings.
func (l *scalingLook) begin(ctx context.Context) (err error) {
	bought, all, err := l.Fleet.Bought(ctx)
	if err != nil {
		return err
	}
	l.bought, l.others = bought, fleetsample.Others(all)
	if l.State.Machine == nil {
		return l.beginAgain(ctx)
	}
	settings := l.Overrides.Over(l.Configured.Config)
	if l.machine, err = scaling.Restore(*l.State.Machine); err == nil {
		l.pool, err = supply.Restore(l.State.Pool)
	}
	if err == nil && l.machine.Config != settings {
		l.take(l.machine.Handle(scaling.Set{At: l.now, Config: settings}))
	}
	return err
}

// beginAgain begins with what was told last: this workflow is the first, or the one before it was lost.
func (l *scalingLook) beginAgain(ctx context.Context) error {
	last, scaled, err := l.Fleet.Scaling(ctx)
	if err != nil {
		return err
	}
	if scaled && len(l.Overrides) == 0 {
		// They hold until the configuration says something else.
		set := scaling.OverridesIn(last.Settings, last.Set)
		if set.Check(l.Configured.Config) == nil && set.Over(l.Configured.Config) == last.Settings {
			l.Overrides, l.result.Overrides = set, set
		}
	}
	settings := l.Overrides.Over(l.Configured.Config)
	if l.machine, err = scaling.New(settings); err != nil {
		return rollout.Fail(rollout.Permanent, rollout.CodeInternal, err)
	}
	l.pool = supply.New()
	if !scaled {
		return nil
	}
	l.pool.Started, l.machine.Cost = last.Started, last.Cost
	if n := len(last.Decisions); n > 0 {
		l.machine.Decisions = last.Decisions[n-1].No
		l.State.Decisions, l.State.Measured = last.Decisions, last.Measured
	}
	l.machine.Wanted = last.Wanted
	l.take(l.machine.Handle(scaling.Set{At: l.now, Config: settings})) // another number by now is a decision
	return nil
}

// decide lets the machine decide on a sample, when one is due.
func (l *scalingLook) decide(ctx context.Context) error {
	window := l.Configured.Window.Std()
	if age := l.now.Sub(l.machine.At); !l.machine.At.IsZero() && age < window-window/20 {
		return nil
	}
	sample, memory, err := l.Sampler.Sample(ctx, l.State.Memory)
	if err != nil {
		return err
	}
	if l.Provider != nil {
		sample.Engines = l.engines()
	}
	if cold := l.pool.ColdStartSec(); cold > 0 {
		sample.ColdStartSec = max(0, cold-float64(sample.Adapters)*sample.LoadSec)
	}
	l.State.Memory, l.State.Sample = memory, sample
	l.take(l.machine.Handle(sample))
	return nil
}

// engines counts all engines by state: those that were bought by what the pool knows, the others by what is seen.
func (l *scalingLook) engines() scaling.Engines {
	n := l.pool.Count()
	n.Starting += l.others.Starting
	n.Ready += l.others.Ready
	n.Draining += l.others.Draining
	return n
}

// take keeps what the machine says.
func (l *scalingLook) take(commands []scaling.Command) {
	for _, c := range commands {
		switch c := c.(type) {
		case scaling.Change:
			l.result.Decided = append(l.result.Decided, c.Decision)
			l.State.Decisions = append(l.State.Decisions, c.Decision)
		case scaling.Measured:
			l.result.Measured = append(l.result.Measured, c)
			if l.State.Measured == nil {
				l.State.Measured = map[int]scaling.Measured{}
			}
			l.State.Measured[c.Decision] = c
		}
	}
	if n := len(l.State.Decisions); n > decisionsKept {
		l.State.Decisions = slices.Clone(l.State.Decisions[n-decisionsKept:])
	}
	for no := range l.State.Measured {
		if len(l.State.Decisions) > 0 && no < l.State.Decisions[0].No {
			delete(l.State.Measured, no)
		}
	}
}

// plan lets the pool say what is to be done, and when to look again.
func (l *scalingLook) plan(ctx context.Context) error {
	window := l.Configured.Window.Std()
	due := max(0, l.machine.At.Add(window).Sub(l.now))
	l.result.LookIn = rollout.Duration(due)
	if l.Provider != nil {
		trouble := l.pool.Trouble
		seen := supply.Seen{At: l.now, Wanted: max(0, l.machine.Wanted-l.others.Alive()), Members: l.bought,
			UnderWay: l.UnderWay, Results: l.Results}
		var err error
		if seen.Removed, err = l.Fleet.Removed(ctx); err != nil {
			return err
		}
		listing, cancel := context.WithTimeout(ctx, listTimeout)
		defer cancel()
		if seen.Listed, err = l.Provider.List(listing); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if errors.Is(err, context.DeadlineExceeded) && listing.Err() != nil {
				err = fmt.Errorf("no answer within %v: %w", listTimeout, err)
			}
			seen.ListFault = faultText(err)
		}
		l.result.Commands = l.pool.Handle(seen)
		l.result.Troubled = (trouble == "") != (l.pool.Trouble == "")
		l.result.LookIn = rollout.Duration(min(due, l.pool.NextLook(l.now, seen.Wanted, window)))
	}
	l.State.Machine, l.State.Pool = &l.machine.State, l.pool.State
	l.result.State = l.State
	return nil
}

// faultText is an error as the pool keeps and tells it.
func faultText(err error) string {
	const most = 500
	return termtext.First(err.Error(), most)
}

// view is the reported state of the fleet.
func (l *scalingLook) view() supply.View {
	m, s := l.machine, l.State
	actual := l.engines()
	if l.Provider == nil {
		actual = s.Sample.Engines
	}
	return supply.View{
		At: m.At, Provider: l.Configured.Provider, Settings: m.Config, Set: l.Overrides.Names(), Wanted: m.Wanted,
		Actual: actual, Why: m.Why, Next: m.Next, Cost: m.Cost, Engines: l.pool.Told(), Sample: s.Sample,
		Decisions: s.Decisions, Measured: s.Measured, Trouble: l.pool.Trouble, TroubleSince: l.pool.TroubleSince,
		Started: l.pool.Started,
	}
}
