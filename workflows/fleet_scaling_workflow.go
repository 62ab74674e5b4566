package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/scaling/supply"
)

var scalingActs *activities.Scaling // Names activities; never called through.

// UpdateConfigure is the update by which a worker says what its configuration's section `scaling` is, and
// SignalUnconfigured says that no worker has one any more.
const (
	UpdateConfigure    = "configure"
	SignalUnconfigured = "unconfigured"
)

// ScalingInput is what FleetScaling begins with, and goes on with.
type ScalingInput struct {
	Configured activities.ScalingConfig `json:"configured"`
	Overrides  scaling.Overrides        `json:"overrides,omitempty"` // what an operator has set since
	State      activities.ScalingState  `json:"state"`
	Ended      bool                     `json:"ended,omitempty"` // no worker's configuration scales the fleet
	Results    []supply.Result          `json:"results,omitempty"`
}

// FleetScaling keeps as many engines alive as the fleet is worth, look by look. A look is an activity whose result, the
// decision, is in history before it is acted on: a purchase is made once, whichever worker dies. When no worker's
// configuration scales the fleet any more it waits, and still knows its engines when one does again.
func FleetScaling(ctx workflow.Context, in ScalingInput) error {
	s := &fleetScaler{ScalingInput: in}
	if err := s.listen(ctx); err != nil {
		return err
	}
	for looks := 0; ; looks++ {
		if looks >= looksOfOneHistory || workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			return s.goOnInNewHistory(ctx)
		}
		if s.Ended {
			if err := s.rest(ctx); err != nil {
				return err
			}
			continue
		}
		wait, err := s.look(ctx)
		if err != nil {
			return err
		}
		s.woken = s.woken || s.Ended
		if _, err := workflow.AwaitWithTimeout(ctx, wait, func() bool { return s.ended() || s.woken }); err != nil {
			return err
		}
		s.woken = false
	}
}

// looksOfOneHistory bounds a history: a look puts some KiB into it.
const looksOfOneHistory = 150

// silentFor is how long the workers of a configuration must be silent before another configuration may take over.
const silentFor = time.Minute

// fleetScaler is FleetScaling's state.
type fleetScaler struct {
	ScalingInput
	looked   time.Time          // when a look was answered last
	underWay []rollout.EngineID // for which something is being done
	woken    bool               // an operator or a configuration has changed something
	replaced int                // how often another configuration has come

	unconfigured workflow.ReceiveChannel
}

// listen takes in what operators and workers say.
func (s *fleetScaler) listen(ctx workflow.Context) error {
	s.looked = workflow.Now(ctx)
	s.unconfigured = workflow.GetSignalChannel(ctx, SignalUnconfigured)
	settings := func(_ workflow.Context, change scaling.SettingsChange) (now ScalingSettings, err error) {
		s.Overrides, now = setScaling(s.Overrides, change, s.Configured.Config)
		s.woken = true
		return now, nil
	}
	if err := workflow.SetUpdateHandlerWithOptions(ctx, UpdateSettings, settings, workflow.UpdateHandlerOptions{
		Validator: func(_ workflow.Context, change scaling.SettingsChange) error {
			if s.Ended {
				return refusal(notScaled())
			}
			return checkScaling(s.Overrides, change, s.Configured.Config)
		},
	}); err != nil {
		return err
	}
	configure := func(_ workflow.Context, to activities.ScalingConfig) error {
		s.configure(to)
		return nil
	}
	if err := workflow.SetUpdateHandlerWithOptions(ctx, UpdateConfigure, configure, workflow.UpdateHandlerOptions{
		Validator: func(ctx workflow.Context, to activities.ScalingConfig) error { return s.mayConfigure(ctx, to) },
	}); err != nil {
		return err
	}
	return nil
}

// ended takes in the signals that have come, and reports whether the fleet is not scaled any more. No coroutine waits
// for them: it would be handed one that came with the task in which this execution ends, and never run again.
func (s *fleetScaler) ended() bool {
	for s.unconfigured.ReceiveAsync(nil) {
		s.Ended, s.woken = true, true
	}
	return s.Ended
}

// mayConfigure refuses a configuration with another provider while there are engines: the provider that got them must
// give them back. Engines of a provider whose workers do not answer do not count.
func (s *fleetScaler) mayConfigure(ctx workflow.Context, to activities.ScalingConfig) error {
	elsewhere := to.Provider != s.Configured.Provider || to.Queue != s.Configured.Queue
	engines := len(s.State.Pool.Engines)
	if s.Ended || !elsewhere || engines == 0 || workflow.Now(ctx).Sub(s.looked) > silentFor {
		return nil
	}
	return refusal(rollout.Refuse(rollout.Conflict, "%d engines of provider %s (%s) are there; give them back first: "+
		"millrace engine scaling policy=fixed engines=0 min=0. If only the Redis has another address, or workers reach it "+
		"by several, give scaling.deployment, the same on all workers", engines, s.Configured.Provider, s.Configured.Queue))
}

// configure takes a configuration. What an operator has set since holds until the section says something else.
func (s *fleetScaler) configure(to activities.ScalingConfig) {
	s.ended() // what was said before
	if to == s.Configured && !s.Ended {
		return
	}
	if to.Config != s.Configured.Config {
		s.Overrides = nil
	}
	s.Configured, s.Ended, s.woken = to, false, true
	s.replaced++
}

// look looks at the fleet, begins what follows from it, and returns when to look again.
func (s *fleetScaler) look(ctx workflow.Context) (time.Duration, error) {
	looking, cancel := workflow.WithCancel(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: s.Configured.Queue, StartToCloseTimeout: 2 * time.Minute, HeartbeatTimeout: 5 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 5 * time.Second,
		},
	}))
	defer cancel()
	results, config := s.Results, s.replaced
	future := workflow.ExecuteActivity(looking, scalingActs.ScaleFleet, activities.ScaleInput{
		Configured: s.Configured, Overrides: s.Overrides, State: s.State, UnderWay: slices.Clone(s.underWay),
		Results: results,
	})
	// The workers of a former configuration may never answer.
	answered := func() bool { return future.IsReady() || s.ended() || s.replaced != config }
	if err := workflow.Await(ctx, answered); err != nil {
		return 0, err
	}
	if !future.IsReady() {
		return 0, nil
	}
	var result activities.ScaleResult
	if err := future.Get(ctx, &result); err != nil {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		workflow.GetLogger(ctx).Warn("a look at the fleet failed; another one follows", "error", err)
		return 5 * time.Second, nil
	}
	s.looked = workflow.Now(ctx)
	s.State = result.State
	s.Results = s.Results[len(results):]
	if len(s.Overrides) == 0 {
		s.Overrides = result.Overrides
	}
	if err := s.tell(ctx, result); err != nil {
		return 0, err
	}
	for _, c := range result.Commands {
		s.perform(ctx, c)
	}
	return result.LookIn.Std(), nil
}

// tell tells what was decided and measured, before anything is done about it.
func (s *fleetScaler) tell(ctx workflow.Context, result activities.ScaleResult) error {
	if len(result.Decided)+len(result.Measured) == 0 && !result.Troubled {
		return nil
	}
	news := activities.ScalingNews{Decided: result.Decided, Measured: result.Measured, Troubled: result.Troubled,
		Trouble: s.State.Pool.Trouble, Provider: s.Configured.Provider, At: workflow.Now(ctx).UTC()}
	if s.State.Machine != nil {
		news.Cost = s.State.Machine.Cost
	}
	if news.Trouble != "" {
		news.At = s.State.Pool.TroubleSince
	}
	return workflow.ExecuteActivity(telling(ctx), acts.TellScaling, news).Get(ctx, nil)
}

func telling(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 30 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 5 * time.Second,
		},
	})
}

// performFor is how long an action may take, whichever workers die; what is not known to be done then is planned anew.
const performFor = 15 * time.Minute

// perform begins to do something about an engine. The next look goes on without it.
func (s *fleetScaler) perform(ctx workflow.Context, c supply.Command) {
	s.underWay = append(s.underWay, c.ID)
	workflow.Go(ctx, func(ctx workflow.Context) {
		doing := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			TaskQueue: s.Configured.Queue, ScheduleToCloseTimeout: performFor, HeartbeatTimeout: 5 * time.Second,
			RetryPolicy: &temporal.RetryPolicy{
				InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 5 * time.Second,
			},
		})
		result := supply.Result{Do: c.Do, ID: c.ID}
		if err := workflow.ExecuteActivity(doing, scalingActs.PerformScaling, c).Get(ctx, &result); err != nil {
			result = supply.Result{Do: c.Do, ID: c.ID, Fault: fmt.Sprintf("it is not known to be done: %s", cause(err))}
		}
		s.underWay = slices.DeleteFunc(s.underWay, func(id rollout.EngineID) bool { return id == c.ID })
		s.Results = append(s.Results, result)
	})
}

// rest says that the fleet is not scaled any more, and waits until it is again.
func (s *fleetScaler) rest(ctx workflow.Context) error {
	news := activities.ScalingNews{Ended: true, At: workflow.Now(ctx).UTC()}
	if err := workflow.ExecuteActivity(telling(ctx), acts.TellScaling, news).Get(ctx, nil); err != nil {
		return err
	}
	return workflow.Await(ctx, func() bool { return !s.ended() })
}

// goOnInNewHistory begins anew with what is known, when nothing is under way.
func (s *fleetScaler) goOnInNewHistory(ctx workflow.Context) error {
	if err := workflow.Await(ctx, func() bool {
		return len(s.underWay) == 0 && workflow.AllHandlersFinished(ctx)
	}); err != nil {
		return err
	}
	s.ended() // one may have come with this task
	return workflow.NewContinueAsNewError(ctx, FleetScaling, s.ScalingInput)
}
