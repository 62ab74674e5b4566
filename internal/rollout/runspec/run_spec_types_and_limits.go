// Package runspec is what a run is asked to be: the types of a run spec. Package spec has the keys, defaults and
// bounds. Start reading at Spec.
package runspec

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/millrace/millrace/internal/rollout"
)

// Spec is what a user asks for: one training run. Package spec has a row for each of its keys.
type Spec struct {
	Name        rollout.RunName  `json:"name"`
	Model       string           `json:"model"` // base model, as the engines serve it
	Steps       int              `json:"steps"` // optimizer steps of the whole run
	Seed        int64            `json:"seed,omitempty"`
	Environment Environment      `json:"environment"`
	Group       GroupSpec        `json:"group"`
	Buffer      BufferSpec       `json:"buffer"`
	Sampling    rollout.Sampling `json:"sampling"`
	Adapters    AdapterSpec      `json:"adapters"`
	// PolicyRefresh is when a game takes a newer version; empty is RefreshGroup.
	PolicyRefresh PolicyRefresh `json:"policy_refresh,omitempty"`
	// Policies are fixed policies that an environment may have as opponents.
	Policies []FixedPolicy `json:"policies,omitempty"`
	League   League        `json:"league,omitzero"`
	Dispatch Dispatch      `json:"dispatch"`
	Timeouts Timeouts      `json:"timeouts"`
	// Priority is which of several runs gets engines first where scaling may not have as many as all need, the highest
	// first; MaxEngines bounds what is bought for the run, 0: nothing but the fleet's own bounds.
	Priority   int `json:"priority,omitempty"`
	MaxEngines int `json:"max_engines,omitempty"`
	// Evaluate has versions evaluated while the run goes on.
	Evaluate Evaluate `json:"evaluate,omitzero"`
	// Evaluation says of a run that nobody trains from what it is to tell.
	Evaluation Evaluation `json:"evaluation,omitzero"`
	// SlowShare is the share of a step's time from which a loss makes the run count as slow; 0: a tenth.
	SlowShare float64 `json:"slow_share,omitempty"`
}

// Evaluate has the service start evaluations of a run's versions, each a run of its own that goes behind all others.
type Evaluate struct {
	Every     int      `json:"every,omitempty"`      // versions; 0: none are evaluated unasked
	Against   []string `json:"against,omitempty"`    // whom: a bot, v0 for a version, policy:NAME; each its own evaluation
	Seat      string   `json:"seat,omitempty"`       // the agent that the version plays; empty: those that learn
	Games     int      `json:"games,omitempty"`      // at most, of each evaluation; 0: DefaultEvaluationGames
	HalfWidth float64  `json:"half_width,omitempty"` // as Evaluation.HalfWidth
	Keep      int      `json:"keep,omitempty"`       // versions with the highest scores whose adapters stay on disk
}

// Opponents is whom each version is evaluated against; "" stands for games that have no opponents.
func (e Evaluate) Opponents() []string {
	if e.Every > 0 && len(e.Against) == 0 {
		return []string{""}
	}
	return e.Against
}

// DefaultEvaluationGames is how many games an evaluation has that says nothing else.
const DefaultEvaluationGames = 256

// Evaluation is what the games of a run tell: how good a version of another run is. The service claims and completes
// the steps of such a run, for it has no trainer.
type Evaluation struct {
	Run     rollout.RunName       `json:"run"` // whose version 0 of this run is; empty: this run is no evaluation
	Version rollout.PolicyVersion `json:"version,omitempty"`
	Against string                `json:"against,omitempty"` // who played the others, as it was asked for
	Seat    string                `json:"seat,omitempty"`    // which agent the version played; empty: those that learn
	// HalfWidth ends the run as soon as the mean reward is known to so much, with 95 % confidence over all looks, one
	// after each step; 0: it plays all its steps.
	HalfWidth float64 `json:"half_width,omitempty"`
}

// Environment says what is played: a kind, and options that only this kind understands.
// In JSON and YAML the options stand beside the kind.
type Environment struct {
	Kind    string          `json:"kind"`
	Options json.RawMessage `json:"-"` // a JSON object without "kind"; nil means all defaults
}

// NoGames is the kind of a run whose trainer makes its rollouts by itself, against engines that it reaches as one vLLM:
// nothing is played, and what it publishes stays as long as it may be in use.
const NoGames = "none"

// Played reports whether the run has games.
func (e Environment) Played() bool { return e.Kind != NoGames }

// MarshalJSON writes {"kind": ..., options...}.
func (e Environment) MarshalJSON() ([]byte, error) {
	m := map[string]json.RawMessage{}
	if len(e.Options) > 0 {
		if err := json.Unmarshal(e.Options, &m); err != nil {
			return nil, fmt.Errorf("environment options: %w", err)
		}
	}
	kind, err := json.Marshal(e.Kind)
	if err != nil {
		return nil, err
	}
	m["kind"] = kind
	return json.Marshal(m)
}

// UnmarshalJSON reads {"kind": ..., options...}.
func (e *Environment) UnmarshalJSON(b []byte) error {
	m := map[string]json.RawMessage{}
	if err := json.Unmarshal(b, &m); err != nil {
		return fmt.Errorf("environment: %w", err)
	}
	*e = Environment{}
	if kind, ok := m["kind"]; ok {
		if err := json.Unmarshal(kind, &e.Kind); err != nil {
			return fmt.Errorf("environment.kind: %w", err)
		}
	}
	rest := maps.Clone(m)
	delete(rest, "kind")
	if len(rest) == 0 {
		return nil
	}
	var err error
	e.Options, err = json.Marshal(rest)
	return err
}

// GroupSpec says how many episodes are forked from one scenario, and when they are enough to be trained on.
type GroupSpec struct {
	Samples    int `json:"samples"`
	MinSamples int `json:"min_samples"`
	// Oversample is how many episodes are started beyond Samples; as soon as Samples have succeeded, the others are
	// cancelled. Those that are kept are the fastest, which favours short episodes.
	Oversample int `json:"oversample,omitempty"`
	// Grace is how long episodes may still take once MinSamples have succeeded; then they are cancelled. 0: to
	// their end.
	Grace rollout.Duration `json:"grace,omitempty"`
	// ZeroVariance is what becomes of a group in which all advantages are zero; empty is KeepZeroVariance.
	ZeroVariance ZeroVariance `json:"zero_variance,omitempty"`
}

// ZeroVariance is what becomes of a group whose rewards are equal for every agent, so that no gradient comes of it.
type ZeroVariance string

// The treatments of groups without variance. Either way they are counted.
const (
	KeepZeroVariance ZeroVariance = "keep" // train on it
	DropZeroVariance ZeroVariance = "drop" // discard it and launch one in its place
)

// Drops says whether a group of so many games is discarded: the service and the simulator ask it.
func (z ZeroVariance) Drops(games int, equal bool) bool {
	return z == DropZeroVariance && equal && games > 1
}

// Probes is whether versions must come with probes, by which engines prove that they serve the trainer's weights.
type Probes string

// What is asked of versions. Probes that are there are always used.
const (
	ProbesOptional Probes = "optional"
	ProbesRequired Probes = "required"
)

// BufferSpec bounds what may be outstanding and what may be trained on.
type BufferSpec struct {
	Depth         int        `json:"depth"` // steps' worth of groups outstanding: queued + in flight + ready
	GroupsPerStep int        `json:"groups_per_step"`
	MaxStaleness  int64      `json:"max_staleness"` // in versions, when claimed
	OnStale       OnStale    `json:"on_stale"`
	Prefill       Prefill    `json:"prefill,omitempty"` // how much must be ready before step 0; empty is PrefillFull
	Order         BatchOrder `json:"order,omitempty"`   // which ready groups a batch takes; empty is StartOrder
	// stored trajectories beyond which no more groups are launched than a batch needs; 0: no bound
	MaxBytes int64 `json:"max_bytes,omitempty"`
}

// BatchOrder is which of the ready groups a batch takes first.
type BatchOrder string

// The orders. By finish, groups of short games are trained on earlier and on fresher policies than groups of long ones.
const (
	StartOrder  BatchOrder = "start"  // launched first
	FinishOrder BatchOrder = "finish" // ready first
)

// Prefill is how much of the buffer is filled before the first batch is given out.
type Prefill string

// The prefills. A full buffer makes the first steps fast, and hides for depth-1 steps that engines are too slow;
// the whole run takes as long either way when engines are the limit.
const (
	PrefillFull  Prefill = "full"  // depth x groups_per_step groups
	PrefillBatch Prefill = "batch" // the first batch alone
)

// First is how many groups must be ready before the first batch of a run of so many steps is given out.
func (b BufferSpec) First(steps int) int {
	if b.Prefill == PrefillBatch {
		return b.GroupsPerStep
	}
	return min(b.Depth, b.AdmittedSteps(0), steps) * b.GroupsPerStep
}

// AdmittedSteps is how many steps' worth of groups may be outstanding without some of them having to end too stale,
// when ahead steps are claimed and not completed. A trainer publishes at most one version per step and takes groups
// by their start, so that a group with s steps before its own, the unfinished ones included, will be s versions
// behind. This is the capacity of AReaL (arXiv 2505.24298, section 5.1), counted in steps. Under KeepStale nothing
// is too stale.
func (b BufferSpec) AdmittedSteps(ahead int) int {
	if b.OnStale == KeepStale {
		return MaxDepth
	}
	return max(0, int(b.MaxStaleness)+1-ahead)
}

// Bounds of a run's buffer and groups. A run keeps one child workflow per outstanding group; Temporal allows 2,000
// pending ones per workflow.
const (
	MaxDepth       = 64
	MaxOutstanding = 1500
	MaxEpisodes    = 1024 // started in one group
	MaxSteps       = 1_000_000
	MaxStaleness   = 1000 // versions
)

// OnStale is what happens to a ready group that is too stale to be claimed.
type OnStale string

// The stale policies.
const (
	DropStale OnStale = "drop" // discard it and launch a replacement
	KeepStale OnStale = "keep" // train on it all the same, and count it
	// WaitStale lets the trainer wait, so that nothing becomes too stale: no batch is given out before every group
	// that later batches could not take in time is in it, games still in play included. It counts on one published
	// version per step.
	WaitStale OnStale = "wait"
)

// Outstanding is how many groups the run keeps queued, in flight or ready.
func (b BufferSpec) Outstanding() int { return b.Depth * b.GroupsPerStep }

// AdapterSpec says what the trainer publishes, and what it begins with.
type AdapterSpec struct {
	// Initial is the adapter that version 0 is, as the engines see it; empty: version 0 is the base model.
	Initial    string `json:"initial,omitempty"`
	Rank       int    `json:"rank"`
	PathPrefix string `json:"path_prefix"` // where the trainer writes adapter directories, as the engines see it
	// Quorum is how many engines must serve a new version before games use it; 0: all that can load it within
	// LoadTimeout of the first. The others load it as soon as they can, and get no requests for it before.
	Quorum int `json:"quorum,omitempty"`
	// LoadTimeout is how long a new version waits for slower engines when the first has loaded it; 0:
	// DefaultLoadTimeout.
	LoadTimeout rollout.Duration `json:"load_timeout,omitempty"`
	// Probes is whether a version must come with probes; empty is ProbesOptional. ProbeBound is how far an engine's
	// logprobs may be from theirs, in nats on average; 0: a tenth.
	Probes     Probes  `json:"probes,omitempty"`
	ProbeBound float64 `json:"probe_bound,omitempty"`
}

// PolicyRefresh is when a game takes a newer version of the learner's weights.
type PolicyRefresh string

// The refreshes. Every turn says which version made it.
const (
	RefreshGroup PolicyRefresh = "group" // never: the games of a group keep the version that it was launched with
	RefreshTurn  PolicyRefresh = "turn"  // at each phase, the newest that serves
)

// FixedPolicy is a policy that does not learn: an adapter that is never published again, the base model, or a model
// elsewhere, which no engine serves.
type FixedPolicy struct {
	Name string `json:"name"`           // as environment options use it
	Path string `json:"path,omitempty"` // adapter directory, as the engines see it; empty: the base model
	// URL is the base of the chat API that serves a model elsewhere under the name Model; empty: engines serve it.
	URL       string `json:"url,omitempty"`
	Model     string `json:"model,omitempty"`
	MaxTokens int    `json:"max_tokens,omitempty"` // length of a model's answer elsewhere; 0: Sampling's
}

// ServedAs is the name under which engines serve the policy for run n, whose base model is base. No version of any run
// has such a name.
func (p FixedPolicy) ServedAs(n rollout.RunName, base string) string {
	if p.Path == "" {
		return base
	}
	return fmt.Sprintf("%s:%s", n, p.Name)
}

// InitialPolicy is the name, among the adapters of a run, of the one that version 0 is.
const InitialPolicy = "initial"

// FixedAdapters is the adapters that are never published: of fixed policies that have one, and of version 0.
func (s *Spec) FixedAdapters() []FixedPolicy {
	var fixed []FixedPolicy
	if s.Adapters.Initial != "" {
		fixed = append(fixed, FixedPolicy{Name: InitialPolicy, Path: s.Adapters.Initial})
	}
	for _, p := range s.Policies {
		if p.Path != "" {
			fixed = append(fixed, p)
		}
	}
	return fixed
}

// ModelOf is the name under which engines serve a version of the run's learner.
func (s *Spec) ModelOf(v rollout.PolicyVersion) string {
	switch {
	case v > 0:
		return v.Adapter(s.Name)
	case s.Adapters.Initial != "":
		return FixedPolicy{Name: InitialPolicy, Path: s.Adapters.Initial}.ServedAs(s.Name, s.Model)
	}
	return s.Model
}

// PlayerOf is what a version of the run's learner is called as a player: in an evaluation, as in the run that it is of.
func (s *Spec) PlayerOf(v rollout.PolicyVersion) string {
	if s.Evaluation.Run != "" && v == 0 {
		v = s.Evaluation.Version
	}
	return v.Player()
}

// Slots is how many adapters an engine must have room for: the versions that may be in use at once, the one being
// published, the fixed ones, and those of the league.
func (s *Spec) Slots() int {
	return int(s.Buffer.MaxStaleness) + 2 + len(s.FixedAdapters()) + s.League.Slots
}

// Games is how many games the run may have outstanding: those of every group that it keeps queued, in flight or ready.
func (s Spec) Games() int64 {
	return int64(s.Buffer.Outstanding()) * (int64(s.Group.Samples) + int64(s.Group.Oversample))
}

// Timeouts bound every wait of a run. A completion's time counts from its dispatch to an engine and
// an episode's from its first dispatch: waiting for a turn in the queue is not charged to them.
type Timeouts struct {
	Completion rollout.Duration `json:"completion"`
	Episode    rollout.Duration `json:"episode"`
	// Heartbeat is how long a game may be silent before its worker is taken for dead and another goes on.
	Heartbeat rollout.Duration `json:"heartbeat"`
	// Phase is how long one phase of a game may take, at engines and in the environment; see PhaseLimit.
	Phase rollout.Duration `json:"phase,omitempty"`
}

// PhaseLimit is how long one phase of a game may take: Phase, or, where that is 0, five completions, for a request
// may have to be repeated on another engine, and at most the episode's own time.
func (t Timeouts) PhaseLimit() rollout.Duration {
	if t.Phase > 0 {
		return t.Phase
	}
	return min(5*t.Completion, t.Episode)
}
