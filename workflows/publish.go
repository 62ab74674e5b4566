package workflows

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/vllm"
)

// Publication is a trainer's wish that version serves the weights at path, as the engines see that path.
type Publication struct {
	Version rollout.PolicyVersion `json:"version"`
	Path    string                `json:"path"`
}

// validatePublication reports why a version cannot be published now. Publishing a served version
// again from the same path is a repetition and allowed.
func validatePublication(s *runState, p Publication) error {
	if s.State.Over() {
		return rollout.Refuse(rollout.RunOver, "run %s is %s; it takes no more versions", s.Spec.Name, s.State)
	}
	if strings.TrimSpace(p.Path) == "" {
		return rollout.Refuse(rollout.Invalid, "version %d has no path; send the adapter's directory as the engines see it", p.Version)
	}
	known := s.policy(p.Version)
	switch {
	case known != nil && known.State == rollout.PolicyRejected:
		return nil // another try
	case known != nil && known.Path == p.Path:
		return nil
	case known != nil:
		return rollout.Refuse(rollout.Conflict, "version %d is already published from %s; a version is never published twice from different paths: publish %d",
			p.Version, known.Path, s.Version+1)
	case p.Version != s.Version+1:
		return rollout.Refuse(rollout.OutOfOrder, "version %d does not follow %d; the next version to publish is %d", p.Version, s.Version, s.Version+1)
	}
	return nil
}

// onPublish loads the adapter on every ready engine, then switches. A bad adapter changes nothing in the run.
func (r *run) onPublish(ctx workflow.Context, p Publication) (rollout.Policy, error) {
	if known := r.policy(p.Version); known != nil && known.State != rollout.PolicyRejected {
		return r.published(ctx, p.Version) // the same publication, sent again
	}
	r.Policies = slices.DeleteFunc(r.Policies, func(q rollout.Policy) bool { return q.Version == p.Version })
	r.Policies = append(r.Policies, rollout.Policy{
		Version: p.Version, Adapter: p.Version.Adapter(r.Spec.Name), Path: p.Path,
		State: rollout.PolicyLoading, PublishedAt: workflow.Now(ctx),
	})
	adapter := fleet.Adapter{Run: r.Spec.Name, Version: p.Version, Name: p.Version.Adapter(r.Spec.Name), Path: p.Path}
	found, loads, err := r.introduce(ctx, &adapter)
	if err == nil {
		short := workflow.WithActivityOptions(ctx, shortActivity())
		err = workflow.ExecuteActivity(short, acts.SwitchPolicy, adapter).Get(ctx, nil)
	}
	policy := r.policy(p.Version)
	policy.LoadSec, policy.Digest, policy.Notes = loads, found.Digest, found.Notes
	if err != nil {
		policy.State, policy.Reason = rollout.PolicyRejected, cause(err)
	} else {
		policy.State = rollout.PolicyServing
		r.Version = max(r.Version, p.Version)
	}
	answer := *policy
	r.forget()
	r.touched = true
	report := workflow.WithActivityOptions(ctx, shortActivity())
	if reported := workflow.ExecuteActivity(report, acts.ReportPolicy, activities.PolicyReport{Run: r.Spec.Name, Policy: answer}).Get(ctx, nil); reported != nil {
		workflow.GetLogger(ctx).Warn("report publication", "error", reported)
	}
	if err != nil {
		return answer, refusal(rollout.Refuse(rollout.Invalid,
			"version %d was not published and nothing has changed: %s; mend the adapter and publish version %d again", p.Version, answer.Reason, p.Version))
	}
	return answer, nil
}

// published waits for an earlier publication of the same version.
func (r *run) published(ctx workflow.Context, v rollout.PolicyVersion) (rollout.Policy, error) {
	err := workflow.Await(ctx, func() bool {
		p := r.policy(v)
		return p == nil || p.State != rollout.PolicyLoading
	})
	if err != nil {
		return rollout.Policy{}, err
	}
	p := r.policy(v)
	if p == nil {
		return rollout.Policy{}, refusal(rollout.Refuse(rollout.Conflict, "version %d is long retired", v))
	}
	if p.State == rollout.PolicyRejected {
		return *p, refusal(rollout.Refuse(rollout.Invalid, "version %d was rejected: %s", v, p.Reason))
	}
	return *p, nil
}

// introduce inspects an adapter, notes its digest and loads it on the engines. What was loaded of an adapter that does not
// come into use is unloaded again, so that the same version may be published from mended files.
func (r *run) introduce(ctx workflow.Context, adapter *fleet.Adapter) (fleet.Inspection, map[rollout.EngineID]float64, error) {
	var found fleet.Inspection
	in := activities.InspectInput{Adapter: *adapter, Rank: r.Spec.Adapters.Rank, Slots: r.Spec.Slots()}
	inspecting := workflow.WithActivityOptions(ctx, loadActivity())
	if err := workflow.ExecuteActivity(inspecting, acts.InspectAdapter, in).Get(ctx, &found); err != nil {
		return found, nil, err
	}
	adapter.Digest = found.Digest
	engines, err := readyEngines(ctx)
	if err != nil {
		return found, nil, err
	}
	loads, err := loadOn(ctx, engines, *adapter, r.Spec.Adapters.Quorum)
	if err != nil && activities.Code(err) != vllm.AdapterConflict { // there the name is somebody else's
		withdraw(ctx, engines, adapter.Name)
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

var errNoEngine = errors.New("no engine is ready; see: millrace engine list")

// withdraw unloads an adapter that is not to be used, as far as engines answer.
func withdraw(ctx workflow.Context, engines []rollout.EngineID, name string) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 15 * time.Second, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 2},
	})
	var unloads []workflow.Future
	for _, engine := range engines {
		unloads = append(unloads, workflow.ExecuteActivity(ctx, acts.UnloadAdapter, activities.UnloadInput{Engine: engine, Name: name}))
	}
	for i, unload := range unloads {
		if err := unload.Get(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Warn("unload adapter", "adapter", name, "engine", engines[i], "error", err)
		}
	}
}

// loadOn loads the adapter on engines, all at once, and returns when quorum of them serve it, or with quorum 0 all. An
// engine that has ceased to be ready meanwhile is not waited for: requests only go to engines that have the adapter, and
// the fleet's keeper loads it before an engine is ready again. A permanent failure condemns the adapter as soon as
// the quorum cannot be reached.
func loadOn(ctx workflow.Context, engines []rollout.EngineID, adapter fleet.Adapter, quorum int) (map[rollout.EngineID]float64, error) {
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
	return seconds, settleLoads(ctx, engines, seconds, quorum, failure)
}

func failureUnless(ok bool, failure error) error {
	if ok {
		return nil
	}
	return failure
}

// settleLoads tells whether the engines that are ready after all loads have ended are served as the quorum wants.
func settleLoads(ctx workflow.Context, engines []rollout.EngineID, seconds map[rollout.EngineID]float64, quorum int, failure error) error {
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

// pin brings the run's fixed policies on the engines. One that engines refuse ends the run; one that they cannot load now is
// the keeper's.
func (r *run) pin(ctx workflow.Context) error {
	short := workflow.WithActivityOptions(ctx, shortActivity())
	for _, p := range r.Spec.Policies {
		if p.Path == "" {
			continue
		}
		adapter := fleet.Adapter{Run: r.Spec.Name, Name: p.Model(r.Spec.Name, r.Spec.Model), Path: p.Path}
		if _, _, err := r.introduce(ctx, &adapter); err != nil && activities.Final(err) {
			r.State, r.EndedAt = rollout.RunFailed, workflow.Now(ctx)
			r.Reason = fmt.Sprintf("policy %s: %s", p.Name, cause(err))
			return nil
		}
		if err := workflow.ExecuteActivity(short, acts.PinAdapter, adapter).Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

// unpin lets the fleet unload the fixed policies.
func (r *run) unpin(ctx workflow.Context) {
	ctx = workflow.WithActivityOptions(ctx, shortActivity())
	for _, p := range r.Spec.Policies {
		if p.Path == "" {
			continue
		}
		if err := workflow.ExecuteActivity(ctx, acts.RetireAdapter, p.Model(r.Spec.Name, r.Spec.Model)).Get(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Error("retire fixed policy", "policy", p.Name, "error", err)
		}
	}
}

// loadHeartbeat is how long a load may be silent: one whose worker has died begins anew elsewhere.
const loadHeartbeat = 6 * time.Second

func loadActivity() workflow.ActivityOptions {
	return workflow.ActivityOptions{
		StartToCloseTimeout:    60 * time.Second,
		HeartbeatTimeout:       loadHeartbeat,
		ScheduleToCloseTimeout: 150 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 15 * time.Second, MaximumAttempts: 4,
		},
	}
}

// retire unloads versions that no game uses any more.
func (r *run) retire(ctx workflow.Context) {
	for _, p := range r.unused() {
		r.retireOne(ctx, r.policy(p.Version))
		r.touched = true
	}
}

func (r *run) retireOne(ctx workflow.Context, p *rollout.Policy) {
	v, name := p.Version, p.Adapter
	ctx = workflow.WithActivityOptions(ctx, shortActivity())
	if err := workflow.ExecuteActivity(ctx, acts.RetireAdapter, name).Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Error("retire adapter", "adapter", name, "error", err)
		return
	}
	if p := r.policy(v); p != nil { // publications may have moved it meanwhile
		p.State = rollout.PolicyRetired
	}
}
