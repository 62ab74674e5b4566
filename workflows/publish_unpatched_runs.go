package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/adapterfiles"
	"github.com/millrace/millrace/internal/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/runmachine"
)

// How histories published that were begun before the patch "publication": every ready engine was waited for, whatever
// went wrong rejected the version, and a version published again was not compared.

// loadBefore inspects an adapter and loads it, at once.
func (r *run) loadBefore(ctx workflow.Context, a runmachine.Adapter) runmachine.Loaded {
	adapter := r.adapter(a)
	found, seconds, err := r.introduceBefore(ctx, &adapter)
	return runmachine.Loaded{Digest: found.Digest, Notes: found.Notes, Seconds: seconds, Fault: faultBefore(err)}
}

// faultBefore is why a publication failed: it was always the adapter's fault.
func faultBefore(err error) *runmachine.Fault {
	if err == nil {
		return nil
	}
	return &runmachine.Fault{Code: rollout.Invalid, Text: cause(err)}
}

// introduceBefore inspects an adapter, notes its digest and loads it on the engines. What was loaded of an adapter that
// does not come into use is unloaded again, so that the same version may be published from corrected files.
func (r *run) introduceBefore(
	ctx workflow.Context, adapter *fleet.Adapter,
) (adapterfiles.Inspection, map[rollout.EngineID]float64, error) {
	var found adapterfiles.Inspection
	in := activities.InspectInput{Adapter: *adapter, Rank: r.machine.Spec.Adapters.Rank, Slots: r.machine.Spec.Slots()}
	inspecting := workflow.WithActivityOptions(ctx, loadActivity())
	if err := workflow.ExecuteActivity(inspecting, acts.InspectAdapter, in).Get(ctx, &found); err != nil {
		return found, nil, err
	}
	adapter.Digest = found.Digest
	engines, err := readyEngines(ctx)
	if err != nil {
		return found, nil, err
	}
	loads, err := loadOnAll(ctx, engines, *adapter, r.machine.Spec.Adapters.Quorum)
	if err != nil && activities.Code(err) != rollout.CodeAdapterConflict { // there the name is somebody else's
		withdraw(ctx, unloadBefore(), engines, nil, adapter.Name)
	}
	return found, loads, err
}

func readyEngines(ctx workflow.Context) ([]rollout.EngineID, error) {
	var engines []rollout.EngineID
	ctx = workflow.WithActivityOptions(ctx, shortActivity())
	if err := workflow.ExecuteActivity(ctx, acts.ReadyEngines).Get(ctx, &engines); err != nil {
		return nil, err
	}
	if len(engines) == 0 {
		return nil, errNoEngine
	}
	return engines, nil
}

// loadOnAll loads the adapter on engines, all at once, and returns when quorum of them serve it, or with quorum 0 all.
// An engine that has ceased to be ready meanwhile is not waited for: requests only go to engines that have the adapter,
// and the fleet's keeper loads it before an engine is ready again. A permanent failure condemns the adapter as soon as
// the quorum cannot be reached.
func loadOnAll(
	ctx workflow.Context, engines []rollout.EngineID, adapter fleet.Adapter, quorum int,
) (map[rollout.EngineID]float64, error) {
	loading, stop := workflow.WithCancel(workflow.WithActivityOptions(ctx, loadActivity()))
	defer stop() // what the quorum does not need is the keeper's to finish
	enough := len(engines)
	if quorum > 0 {
		enough = min(quorum, enough)
	}
	seconds := map[rollout.EngineID]float64{}
	var failure error
	condemned := false
	failed := 0
	selector := workflow.NewSelector(ctx)
	for _, engine := range engines {
		load := workflow.ExecuteActivity(loading, acts.LoadAdapter, activities.LoadInput{Engine: engine, Adapter: adapter})
		selector.AddFuture(load, func(f workflow.Future) {
			var result activities.LoadResult
			err := f.Get(ctx, &result)
			if err == nil {
				seconds[engine] = result.Sec
				return
			}
			failed++
			if failure == nil || activities.Final(err) {
				failure = err
			}
			condemned = condemned || activities.Final(err) && failed > len(engines)-enough
		})
	}
	for len(seconds) < enough && len(seconds)+failed < len(engines) && !condemned {
		selector.Select(ctx)
	}
	if len(seconds) >= enough || condemned {
		return seconds, failureUnless(len(seconds) >= enough, failure)
	}
	return seconds, servedAfterLoads(ctx, engines, seconds, quorum, failure)
}

func failureUnless(ok bool, failure error) error {
	if ok {
		return nil
	}
	return failure
}

// servedAfterLoads reports whether the engines that are ready after all loads have ended are served as the quorum
// wants.
func servedAfterLoads(
	ctx workflow.Context, engines []rollout.EngineID, seconds map[rollout.EngineID]float64, quorum int, failure error,
) error {
	ready, err := readyEngines(ctx)
	if err != nil {
		return err
	}
	asked, have := 0, 0
	for _, engine := range ready {
		if slices.Contains(engines, engine) {
			asked++
			if _, loaded := seconds[engine]; loaded {
				have++
			}
		}
	}
	if quorum > 0 {
		asked = min(asked, quorum)
	}
	return failureUnless(have > 0 && have >= asked, failure)
}

func unloadBefore() workflow.ActivityOptions {
	return workflow.ActivityOptions{
		StartToCloseTimeout: 15 * time.Second, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 2},
	}
}
