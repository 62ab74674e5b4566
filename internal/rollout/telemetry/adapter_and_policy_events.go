package telemetry

import (
	"maps"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// AdapterLoaded reports one load of one adapter on one engine.
type AdapterLoaded struct {
	Adapter string                `json:"adapter"`
	Version rollout.PolicyVersion `json:"policy_version"`
	Sec     float64               `json:"adapter_load_s"`
	Failure string                `json:"failure,omitempty"`
}

var adapterLoadedKind = fact[AdapterLoaded]("adapter_loaded")

func (AdapterLoaded) kind() *kind { return adapterLoadedKind }

func (b AdapterLoaded) row(r Row) {
	r["adapter"], r["policy_version"], r["adapter_load_s"] = b.Adapter, b.Version, b.Sec
	r.text("failure", b.Failure)
}

// AdapterChanged reports that the files of an adapter in use are not those that were published, or, without a
// reason, that they are again. Engines that have them loaded go on with the weights that they have; none loads
// them.
type AdapterChanged struct {
	Adapter string                `json:"adapter"`
	Version rollout.PolicyVersion `json:"policy_version"`
	Path    string                `json:"path"`
	Reason  string                `json:"reason,omitempty"`
}

var adapterChangedKind = fact[AdapterChanged]("adapter_changed")

func (AdapterChanged) kind() *kind { return adapterChangedKind }

func (b AdapterChanged) row(r Row) {
	r["adapter"], r["policy_version"], r["path"] = b.Adapter, b.Version, b.Path
	r.text("reason", b.Reason)
}

// PolicyPublished reports that a version serves, or why it does not.
type PolicyPublished struct {
	Policy runstatus.Policy `json:"policy"`
}

var policyPublishedKind = fact[PolicyPublished]("policy_published")

func (PolicyPublished) kind() *kind { return policyPublishedKind }

func (b PolicyPublished) row(r Row) {
	p := b.Policy
	r["policy_version"], r["adapter"], r["path"], r["state"] = p.Version, p.Adapter, p.Path, p.State
	r.text("digest", p.Digest)
	r.text("reason", p.Reason)
	r["engines"], r["adapter_load_max_s"] = len(p.LoadSec), longest(slices.Collect(maps.Values(p.LoadSec)))
}
