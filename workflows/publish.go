package workflows

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/adapterfiles"
	"github.com/millrace/millrace/internal/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/vllm"
)

// Publication is a trainer's wish that version serves the weights at path, as the engines see that path.
type Publication struct {
	Version rollout.PolicyVersion `json:"version"`
	Path    string                `json:"path"`
}

// publishing is a publication under way.
type publishing struct {
	stop     workflow.CancelFunc // ends its loads
	replaced bool                // by other weights under the same version
	settled  bool                // it switches, and cannot be replaced any more
}

// publishPatience is how long a publication waits for engines before its caller is told to send it again.
const publishPatience = 90 * time.Second

// validatePublication reports why a version cannot be published now, as far as that can be said without a look at its
// files.
func validatePublication(s *runState, p Publication) error {
	if s.State.Over() {
		return rollout.Refuse(rollout.RunOver, "run %s is %s; it takes no more versions", s.Spec.Name, s.State)
	}
	if _, err := s.Spec.Adapters.Clean(p.Path); err != nil {
		return err
	}
	known := s.policy(p.Version)
	switch {
	case known != nil && known.State == rollout.PolicyRejected:
		return nil // another try
	case known != nil && s.careful, known != nil && known.Path == p.Path:
		return nil
	case known != nil:
		return rollout.Refuse(rollout.Conflict, "version %d is already published from %s; a version is never published twice from different paths: publish %d",
			p.Version, known.Path, s.Version+1)
	case p.Version != s.Version+1:
		return rollout.Refuse(rollout.OutOfOrder, "version %d does not follow %d; the next version to publish is %d", p.Version, s.Version, s.Version+1)
	}
	return nil
}

// sameWeights refuses other weights under a version that is published. Without digests the path decides.
func sameWeights(known rollout.Policy, a fleet.Adapter, next rollout.PolicyVersion) error {
	same := known.Path == a.Path
	if known.Digest != "" && a.Digest != "" {
		same = known.Digest == a.Digest
	}
	if same {
		return nil
	}
	return rollout.Refuse(rollout.Conflict,
		"version %d is %s with other weights: %s from %s, and not %s from %s; "+
			"a version never changes its weights: publish these as version %d, from a directory of their own",
		a.Version, known.State, rollout.ShortDigest(known.Digest), known.Path, rollout.ShortDigest(a.Digest), a.Path, next)
}

// onPublish loads an adapter on the engines, then switches. Publishing the same weights again changes nothing; other
// weights under a version are refused, unless it never served. A bad adapter changes nothing in the run.
func (r *run) onPublish(ctx workflow.Context, p Publication) (rollout.Policy, error) {
	if path, err := r.Spec.Adapters.Clean(p.Path); err == nil {
		p.Path = path
	}
	if !r.careful {
		return r.publishBefore(ctx, p)
	}
	adapter := r.adapter(p.Version, p.Version.Adapter(r.Spec.Name), p.Path)
	found, err := r.inspect(ctx, adapter)
	if err != nil {
		return r.unfit(ctx, adapter, err)
	}
	adapter.Digest = found.Digest
	for {
		if err := validatePublication(r.runState, p); err != nil {
			return rollout.Policy{}, refusal(err)
		}
		known, under := r.policy(p.Version), r.publishing[p.Version]
		if known == nil || known.State == rollout.PolicyRejected {
			return r.bring(ctx, adapter, found.Notes)
		}
		loading := known.State == rollout.PolicyLoading
		err := sameWeights(*known, adapter, max(known.Version, r.Version)+1)
		switch {
		case err == nil && loading && under == nil:
			return r.bring(ctx, adapter, found.Notes)
		case err == nil:
			return r.joined(ctx, p.Version)
		case !loading || under != nil && under.settled:
			return *known, refusal(err)
		case under == nil:
			r.withdrawAll(ctx, known.Adapter)
			return r.bring(ctx, adapter, found.Notes)
		}
		under.replaced = true
		under.stop()
		if err := workflow.Await(ctx, func() bool { return r.publishing[p.Version] != under }); err != nil {
			return rollout.Policy{}, err
		}
	}
}

// adapter is one that the run brings on the engines.
func (r *run) adapter(v rollout.PolicyVersion, name, path string) fleet.Adapter {
	return fleet.Adapter{
		Run: r.Spec.Name, Version: v, Name: name, Path: path, Prefix: r.Spec.Adapters.PathPrefix, Recorded: true,
	}
}

// inspect has an adapter's files judged and compared, one adapter of the run at a time.
func (r *run) inspect(ctx workflow.Context, adapter fleet.Adapter) (adapterfiles.Inspection, error) {
	var found adapterfiles.Inspection
	if err := r.inspecting.Lock(ctx); err != nil {
		return found, err
	}
	defer r.inspecting.Unlock()
	in := activities.InspectInput{Adapter: adapter, Rank: r.Spec.Adapters.Rank, Slots: r.Spec.Slots()}
	known := r.policy(adapter.Version)
	in.Compare = known == nil || known.State == rollout.PolicyLoading || known.State == rollout.PolicyRejected
	ctx = workflow.WithActivityOptions(ctx, inspectActivity())
	err := workflow.ExecuteActivity(ctx, acts.InspectAdapter, in).Get(ctx, &found) // versions that serve have a digest of their own
	return found, err
}

// unfit refuses an adapter that could not be inspected. Only a fault of a version that is not in use is remembered.
func (r *run) unfit(ctx workflow.Context, adapter fleet.Adapter, err error) (rollout.Policy, error) {
	known := r.policy(adapter.Version)
	fault := fate(err)
	if fault == rollout.Invalid && adapter.Version == r.Version+1 && (known == nil || known.State == rollout.PolicyRejected) {
		policy := r.begin(ctx, adapter)
		policy.State, policy.Reason = rollout.PolicyRejected, cause(err)
		answer := *policy
		r.forget()
		r.touched = true
		r.reportPolicy(ctx, answer)
	}
	return rollout.Policy{}, r.refuse(adapter.Version, err)
}

// fate is what becomes of a publication that failed: an outage passes, a conflict is about the weights that are there,
// and anything else is the adapter's fault.
func fate(err error) rollout.RefusalCode {
	switch code := activities.Code(err); {
	case errors.Is(err, errNoEngine) || !activities.Final(err):
		return rollout.Unavailable
	case code == vllm.AdapterConflict || code == string(rollout.Conflict):
		return rollout.Conflict
	}
	return rollout.Invalid
}

// refuse tells the trainer what happened, and what to do.
func (r *run) refuse(v rollout.PolicyVersion, err error) error {
	switch code := fate(err); code {
	case rollout.Unavailable:
		return refusal(rollout.Refuse(code,
			"version %d does not serve yet, through no fault of the adapter: %s; publish version %d again to go on", v, cause(err), v))
	case rollout.Conflict:
		return refusal(rollout.Refuse(code, "version %d was not published and nothing has changed: %s", v, cause(err)))
	default:
		return refusal(rollout.Refuse(code,
			"version %d was not published and nothing has changed: %s; mend the adapter and publish version %d again", v, cause(err), v))
	}
}

// begin notes a version that is being published, in place of what was known of it.
func (r *run) begin(ctx workflow.Context, a fleet.Adapter) *rollout.Policy {
	r.Policies = slices.DeleteFunc(r.Policies, func(q rollout.Policy) bool { return q.Version == a.Version })
	r.Policies = append(r.Policies, rollout.Policy{
		Version: a.Version, Adapter: a.Name, Path: a.Path, Digest: a.Digest,
		State: rollout.PolicyLoading, PublishedAt: workflow.Now(ctx),
	})
	r.touched = true
	return r.policy(a.Version)
}

// bring loads an adapter that is fit on the engines and switches to it. While that cannot be done for want of engines
// it stays as it is, loading, until it is published again.
func (r *run) bring(ctx workflow.Context, adapter fleet.Adapter, notes []string) (rollout.Policy, error) {
	loading, stop := workflow.WithCancel(ctx)
	defer stop()
	under := &publishing{stop: stop}
	r.publishing[adapter.Version] = under
	defer delete(r.publishing, adapter.Version)
	r.begin(ctx, adapter)
	loads, err := r.introduce(loading, adapter, publishPatience)
	if under.replaced {
		loads.withdraw(ctx, adapter.Name)
		r.Policies = slices.DeleteFunc(r.Policies, func(q rollout.Policy) bool { return q.Version == adapter.Version })
		return rollout.Policy{}, refusal(replaced(adapter.Version))
	}
	if err == nil && !r.State.Over() {
		under.settled = true
		short := workflow.WithActivityOptions(ctx, shortActivity())
		err = workflow.ExecuteActivity(short, acts.SwitchPolicy, adapter).Get(ctx, nil)
	}
	if r.State.Over() || err != nil && fate(err) != rollout.Unavailable {
		loads.withdraw(ctx, adapter.Name)
	}
	policy := r.policy(adapter.Version)
	policy.LoadSec, policy.Notes = loads.seconds, slices.Concat(notes, loads.notes())
	switch {
	case r.State.Over():
		policy.State, policy.Reason = rollout.PolicyRejected, "the run is over"
		r.retireOne(ctx, policy) // it may be wanted already
		return rollout.Policy{}, refusal(validatePublication(r.runState, Publication{adapter.Version, adapter.Path}))
	case err == nil:
		policy.State = rollout.PolicyServing
		r.Version = max(r.Version, adapter.Version)
		r.Failing = 0 // groups may have failed for want of it
	case fate(err) == rollout.Unavailable:
		policy.Reason = "waits for engines: " + cause(err)
	default:
		policy.State, policy.Reason = rollout.PolicyRejected, cause(err)
	}
	answer := *policy
	r.forget()
	r.touched = true
	r.reportPolicy(ctx, answer)
	if err != nil {
		return answer, r.refuse(adapter.Version, err)
	}
	return answer, nil
}

func replaced(v rollout.PolicyVersion) error {
	return rollout.Refuse(rollout.Conflict, "version %d was published with other weights before these served", v)
}

func (r *run) reportPolicy(ctx workflow.Context, p rollout.Policy) {
	ctx = workflow.WithActivityOptions(ctx, shortActivity())
	err := workflow.ExecuteActivity(ctx, acts.ReportPolicy, activities.PolicyReport{Run: r.Spec.Name, Policy: p}).Get(ctx, nil)
	if err != nil {
		workflow.GetLogger(ctx).Warn("report publication", "error", err)
	}
}

// joined waits for an earlier publication of the same version.
func (r *run) joined(ctx workflow.Context, v rollout.PolicyVersion) (rollout.Policy, error) {
	under := r.publishing[v]
	err := workflow.Await(ctx, func() bool {
		p := r.policy(v)
		return p == nil || p.State != rollout.PolicyLoading || under != nil && r.publishing[v] != under
	})
	if err != nil {
		return rollout.Policy{}, err
	}
	p := r.policy(v)
	switch {
	case under != nil && under.replaced:
		return rollout.Policy{}, refusal(replaced(v))
	case p == nil:
		return rollout.Policy{}, refusal(rollout.Refuse(rollout.Conflict, "version %d is long retired", v))
	case p.State == rollout.PolicyRejected:
		return *p, refusal(rollout.Refuse(rollout.Invalid, "version %d was rejected: %s", v, p.Reason))
	case p.State == rollout.PolicyLoading:
		return *p, refusal(rollout.Refuse(rollout.Unavailable,
			"version %d does not serve yet: %s; publish it again to go on", v, p.Reason))
	}
	return *p, nil
}

// pin brings the run's fixed policies on the engines, unless the run ends meanwhile. One that engines refuse ends
// the run; one that they cannot load now is the keeper's.
func (r *run) pin(ctx workflow.Context) error {
	short := workflow.WithActivityOptions(ctx, shortActivity())
	mayStop := false
	for _, p := range r.Spec.Policies {
		if p.Path == "" {
			continue
		}
		if !mayStop {
			mayStop = workflow.GetVersion(ctx, "stop-while-pinning", workflow.DefaultVersion, 1) != workflow.DefaultVersion
		}
		if mayStop && r.State.Over() {
			return nil
		}
		adapter := r.adapter(0, p.Model(r.Spec.Name, r.Spec.Model), p.Path)
		if err := r.pinOne(ctx, &adapter); err != nil && activities.Final(err) {
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

func (r *run) pinOne(ctx workflow.Context, adapter *fleet.Adapter) error {
	if !r.careful {
		adapter.Recorded = false
		_, _, err := r.introduceBefore(ctx, adapter)
		return err
	}
	found, err := r.inspect(ctx, *adapter)
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
