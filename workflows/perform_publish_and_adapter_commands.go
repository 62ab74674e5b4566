package workflows

import (
	"errors"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/run/runmachine"
)

// Publication is a trainer's wish that version serves the weights at path, as the engines see that path.
type Publication struct {
	Version rollout.PolicyVersion `json:"version"`
	Path    string                `json:"path"`
	// Generation of the trainer process that publishes; 0: of none, such as an operator's.
	Generation rollout.TrainerGeneration `json:"generation,omitempty"`
}

// inspected has the files of a version judged, one adapter of the run at a time.
func (r *run) inspected(ctx workflow.Context, task runmachine.Inspect) runmachine.Inspected {
	found, err := r.inspect(ctx, r.adapter(task.Adapter), &task.Newest)
	return runmachine.Inspected{Ahead: found.Ahead, Digest: found.Digest, Notes: found.Notes, Fault: faultOf(err)}
}

func (r *run) inspect(ctx workflow.Context, adapter fleet.Adapter, newest *rollout.PolicyVersion) (activities.Inspected,
	error) {
	var found activities.Inspected
	if err := r.inspecting.Lock(ctx); err != nil {
		return found, err
	}
	defer r.inspecting.Unlock()
	in := activities.InspectInput{
		Adapter: adapter, Rank: r.machine.Spec.Adapters.Rank, Slots: r.machine.Spec.Slots(),
		Compare: r.machine.NeverServed(adapter.Version), // versions that serve have a digest of their own
		Newest:  newest,
		Probes:  r.machine.Spec.Adapters.Probes == runspec.ProbesRequired && adapter.Version > 0,
	}
	ctx = workflow.WithActivityOptions(ctx, inspectActivity())
	err := workflow.ExecuteActivity(ctx, acts.InspectAdapter, in).Get(ctx, &found)
	return found, err
}

// adapter is one that the run brings on the engines.
func (r *run) adapter(a runmachine.Adapter) fleet.Adapter {
	return fleet.Adapter{
		Run: r.given.Name, Version: a.Version, Name: a.Name, Path: a.Path, Digest: a.Digest,
		Base: r.machine.Spec.Model, Prefix: r.machine.Spec.Adapters.PathPrefix,
		ProbeBound: r.machine.Spec.Adapters.ProbeBound,
	}
}

// load brings a version on the engines, until others are published in its place or the run is over.
func (l *line) load(ctx workflow.Context, a runmachine.Adapter) runmachine.Loaded {
	ctx, stop := workflow.WithCancel(ctx)
	defer stop()
	l.loading[a.Version] = stop
	loads, err := l.introduce(ctx, l.adapter(a), publishPatience)
	delete(l.loading, a.Version)
	l.loads = loads
	return runmachine.Loaded{Seconds: loads.seconds, Notes: loads.notes(), Fault: faultOf(err)}
}

func (r *run) stopLoading(v rollout.PolicyVersion) runmachine.Done {
	if stop := r.loading[v]; stop != nil {
		stop()
	}
	return runmachine.Done{}
}

// unload takes an adapter from the engines, as far as they answer.
func (l *line) unload(ctx workflow.Context, task runmachine.Unload) runmachine.Done {
	switch {
	case task.Everywhere:
		l.withdrawAll(ctx, task.Adapter)
	case l.loads != nil:
		l.loads.withdraw(ctx, task.Adapter)
	}
	return runmachine.Done{}
}

func (r *run) switchTo(ctx workflow.Context, task runmachine.Switch) runmachine.Switched {
	ctx = workflow.WithActivityOptions(ctx, shortActivity())
	in := activities.SwitchInput{Adapter: r.adapter(task.Adapter), Generation: task.Generation}
	err := workflow.ExecuteActivity(ctx, acts.SwitchPolicy, in).Get(ctx, nil)
	return runmachine.Switched{Fault: faultOf(err)}
}

// faultOf is why a publication failed.
func faultOf(err error) *runmachine.Fault {
	if err == nil {
		return nil
	}
	return &runmachine.Fault{Code: fate(err), Text: cause(err)}
}

// fate maps a publication's error to its code: an outage passes, a conflict is about existing weights, a replaced
// trainer is fenced, and anything else is the adapter's fault.
func fate(err error) rollout.RefusalCode {
	switch code := activities.Code(err); {
	case errors.Is(err, errNoEngine) || !activities.Final(err):
		return rollout.Unavailable
	case code == rollout.CodeAdapterConflict || code == rollout.Code(rollout.Conflict):
		return rollout.Conflict
	case code == rollout.Code(rollout.Fenced):
		return rollout.Fenced
	case code == rollout.Code(rollout.NoSuchRun): // the run goes on: it is Redis that lost it
		return rollout.Unavailable
	}
	return rollout.Invalid
}

// pin brings a fixed policy on the engines, unless the run is over. One that they cannot load now is the keeper's.
func (r *run) pin(ctx workflow.Context, p runspec.FixedPolicy) runmachine.Pinned {
	if r.machine.State.Over() {
		return runmachine.Pinned{}
	}
	adapter := r.adapter(runmachine.Adapter{Name: p.ServedAs(r.given.Name, r.machine.Spec.Model), Path: p.Path})
	if err := r.bringPinned(ctx, &adapter); err != nil && activities.Final(err) {
		return runmachine.Pinned{Refused: cause(err)}
	}
	ctx = workflow.WithActivityOptions(ctx, shortActivity())
	if err := workflow.ExecuteActivity(ctx, acts.PinAdapter, adapter).Get(ctx, nil); err != nil {
		r.failure = err
		return runmachine.Pinned{Failed: cause(err)}
	}
	return runmachine.Pinned{}
}

func (r *run) bringPinned(ctx workflow.Context, adapter *fleet.Adapter) error {
	found, err := r.inspect(ctx, *adapter, nil)
	if err != nil {
		return err
	}
	adapter.Digest = found.Digest
	loads, err := r.introduce(ctx, *adapter, 0)
	if err != nil && activities.Final(err) {
		loads.withdraw(ctx, adapter.Name)
	}
	return err
}

// choice asks for the engines of the run.
func (r *run) choice() activities.ChoiceInput {
	return activities.ChoiceInput{Run: r.given.Name, Base: r.machine.Spec.Model}
}

// withdrawAll unloads an adapter from all engines that are ready, whatever became of its loads.
func (r *run) withdrawAll(ctx workflow.Context, name string) {
	var choice activities.EngineChoice
	short := workflow.WithActivityOptions(ctx, shortActivity())
	if err := workflow.ExecuteActivity(short, acts.ChooseEngines, r.choice()).Get(ctx, &choice); err != nil {
		workflow.GetLogger(ctx).Warn("unload adapter", "adapter", name, "error", err)
		return
	}
	engines := slices.Concat(choice.Ready, choice.Behind)
	unsure := map[rollout.EngineID]bool{}
	for _, engine := range engines {
		unsure[engine] = true
	}
	withdraw(ctx, unloadActivity(), engines, unsure, name)
}
