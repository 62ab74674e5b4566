package config

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// DefaultSpec is what a run spec says where it says nothing. Name, model, steps and the environment have no default.
func DefaultSpec() rollout.Spec {
	return rollout.Spec{
		Group:    rollout.GroupSpec{Samples: 6, ZeroVariance: rollout.KeepFlat}, // min_samples follows samples
		Buffer:   rollout.BufferSpec{Depth: 2, GroupsPerStep: 8, MaxStaleness: 4, OnStale: rollout.DropStale, Prefill: rollout.PrefillFull, Order: rollout.StartOrder},
		Sampling: rollout.Sampling{Temperature: 1, TopP: 1, MaxTokens: 256},
		Adapters: rollout.AdapterSpec{Rank: 32, PathPrefix: "/adapters"},

		PolicyRefresh: rollout.RefreshGroup,
		Dispatch: rollout.Dispatch{
			Policy: rollout.LeastTokens, Order: rollout.OldestGroup, Queue: rollout.SharedQueue,
			Batching: rollout.Batching{BinBy: rollout.OutputLength, BinSelect: rollout.OldestHead},
		},
		Timeouts: rollout.Timeouts{
			Completion: rollout.Duration(time.Minute), Episode: rollout.Duration(15 * time.Minute), Heartbeat: rollout.Duration(10 * time.Second),
		},
		Demo: rollout.Demo{
			Engines: 2, EngineMaxNumSeqs: 64, Speed: 20,
			Load: rollout.Duration(5 * time.Second), RefLogprobs: rollout.Duration(30 * time.Second),
			Train: rollout.Duration(time.Minute), Publish: rollout.Duration(5 * time.Second),
		},
	}
}

// Bounds of a run, beside those of its buffer in package rollout. Every game of a run carries its environment's
// options and the names of its fixed policies, through Temporal and in each worker, and every engine loads the
// policies.
const (
	maxTokens       = 131_072
	maxModelBytes   = 256
	maxOptionsBytes = 8 << 10 // as JSON
	maxPolicies     = 64
)

var specTable = table{
	rules: []rule{
		{path: "name", doc: "the run's name, unique in the service: a-z 0-9 . _ -", required: true, example: "diplomacy-qwen7b"},
		{path: "model", doc: "the base model, as the engines serve it", required: true, example: "Qwen/Qwen2.5-7B-Instruct"},
		{path: "steps", doc: "optimizer steps of the whole run", required: true, min: limit(1), max: limit(rollout.MaxSteps)},
		{path: "seed", doc: "makes scenarios and sampling repeatable", min: limit(0)},
		{path: "environment", doc: "what is played: a kind, and the options of that kind", example: "{kind: diplomacy}"},
		{path: "environment.kind", doc: "which environment is played", example: "diplomacy"},
		{path: "group", doc: "the episodes of one scenario whose rewards are compared"},
		{path: "group.samples", doc: "episodes forked from each scenario", min: limit(1), max: limit(rollout.MaxEpisodes)},
		{path: "group.min_samples", doc: "episodes that must succeed for the group to be trained on; all of them, if not given", min: limit(1), max: limit(rollout.MaxEpisodes)},
		{path: "group.oversample", doc: "episodes started beyond samples; once samples have succeeded, the others are cancelled", min: limit(0), max: limit(rollout.MaxEpisodes)},
		{path: "group.grace", doc: "how long episodes may still take once min_samples have succeeded, before they are cancelled; 0: to their end", min: limit(0)},
		{path: "group.zero_variance", doc: "what becomes of a group whose rewards are all equal: keep and count it, or drop it and launch one in its place",
			oneOf: []string{string(rollout.KeepFlat), string(rollout.DropFlat)}},
		{path: "buffer", doc: "what may be outstanding, and what may be trained on"},
		{path: "buffer.depth", doc: "steps' worth of groups kept queued, in flight or ready", min: limit(1), max: limit(rollout.MaxDepth)},
		{path: "buffer.groups_per_step", doc: "groups in a step's batch", min: limit(1), max: limit(rollout.MaxOutstanding)},
		{path: "buffer.max_staleness", doc: "versions that a group may be behind the trainer when it is claimed; engines need room for that many adapters and two more", min: limit(0), max: limit(rollout.MaxStaleness)},
		{path: "buffer.on_stale", doc: "what becomes of a group that is too stale: drop and launch another; keep and count it; or let the trainer wait so that none becomes too stale",
			oneOf: []string{string(rollout.DropStale), string(rollout.KeepStale), string(rollout.WaitStale)}},
		{path: "buffer.order", doc: "which ready groups a batch takes: those launched first, or those finished first, which favours short games",
			oneOf: []string{string(rollout.StartOrder), string(rollout.FinishOrder)}},
		{path: "buffer.max_bytes", doc: "bytes of stored trajectories, such as 500MiB or 2GiB, beyond which no more groups are launched than the next batch needs; 0: no bound", min: limit(0), bytes: true, example: "2GiB"},
		{path: "buffer.prefill", doc: "what must be ready before step 0: the full buffer, depth times groups_per_step, or the first batch alone",
			oneOf: []string{string(rollout.PrefillFull), string(rollout.PrefillBatch)}},
		{path: "sampling", doc: "how engines sample; every field is sent with every request"},
		{path: "sampling.temperature", doc: "0 takes the likeliest token", min: limit(0), max: limit(2)},
		{path: "sampling.top_p", doc: "share of the probability that is sampled from", above: limit(0), max: limit(1)},
		{path: "sampling.top_k", doc: "tokens that are sampled from; 0 or -1 is all", min: limit(-1)},
		{path: "sampling.max_tokens", doc: "length of a completion", min: limit(1), max: limit(maxTokens)},
		{path: "sampling.vocabulary", min: limit(0), max: limit(1 << 20),
			doc: "the model's vocab_size; a completion with another token id is refused; 0: ids are below 1048576"},
		{path: "adapters", doc: "the LoRA adapters that the trainer publishes"},
		{path: "adapters.rank", doc: "LoRA rank; engines must be started with --max-lora-rank at least as high",
			oneOf: []string{"1", "8", "16", "32", "64", "128", "256", "320", "512"}},
		{path: "adapters.path_prefix", doc: "where the trainer writes adapters, as the engines see it; nothing outside of it is published or read, fixed policies included", required: true},
		{path: "adapters.quorum", doc: "engines that must serve a new version before games use it; 0 is all that can load it within load_timeout of the first", min: limit(0), max: limit(1000)},
		{path: "adapters.load_timeout", doc: "how long a new version waits for slower engines when the first has loaded it, without a quorum; 0 is 20s", min: limit(0), max: limit(600)},
		{path: "policy_refresh", doc: "whether the games of a group keep the version that it was launched with, or take the newest at each turn",
			oneOf: []string{string(rollout.RefreshGroup), string(rollout.RefreshTurn)}},
		{path: "policies", doc: "policies that do not learn; environment options name them as opponents; 64 at most"},
		{path: "policies.name", doc: "the policy's name: letters, digits, '_' and '-'", required: true, example: "frozen"},
		{path: "policies.path", doc: "its adapter, as the engines see it; the base model, if not given", example: "/adapters/frozen"},
		{path: "dispatch", doc: "how requests are spread over the engines"},
		{path: "dispatch.policy", doc: "how an engine is chosen", oneOf: []string{string(rollout.LeastTokens), string(rollout.RoundRobin)}},
		{path: "dispatch.max_in_flight_per_engine", doc: "requests at a time on one engine; 0 leaves it to the engine", min: limit(0), max: limit(100_000)},
		{path: "dispatch.affinity_slack", doc: "requests' worth of work that the engine with a game's prefix may have more than the least loaded and still be preferred; 0 is 8, negative: no affinity", min: limit(-1), max: limit(100_000)},
		{path: "dispatch.group_per_engine", doc: "episodes of a group that start on one engine, for their common prefix, before the next engine takes over; 0: wherever there is least to do", min: limit(0), max: limit(rollout.MaxEpisodes)},
		{path: "dispatch.adapter_slots", doc: "adapters that an engine can have in its batch, vLLM's --max-loras: when more are in use, each keeps to its own engines; 0: not known", min: limit(0), max: limit(1024)},
		{path: "dispatch.order", doc: "which request goes next", oneOf: []string{string(rollout.OldestGroup), string(rollout.ArrivalOrder), string(rollout.ShortestFirst)}},
		{path: "dispatch.ageing", doc: "for shortest_first: tokens that a request seems shorter for each second that it waits; 0 lets long ones starve", min: limit(0), max: limit(100_000)},
		{path: "dispatch.queue", doc: "one queue for all engines, or one for each, chosen on arrival", oneOf: []string{string(rollout.SharedQueue), string(rollout.EngineQueue)}},
		{path: "dispatch.batching", doc: "for engines that batch statically: several prompts in one call; vLLM batches by itself and needs none"},
		{path: "dispatch.batching.max_batch_size", doc: "prompts in one call; 0 is no batching", min: limit(0), max: limit(1024)},
		{path: "dispatch.batching.flush_window", doc: "how long an incomplete batch waits for more requests while an engine is idle", min: limit(0), max: limit(60)},
		{path: "dispatch.batching.batches_per_engine", doc: "calls at a time on one engine; 0 is 1", min: limit(0), max: limit(64)},
		{path: "dispatch.batching.memory_tokens", doc: "tokens, prompts and answers together, that one batch has room for; 0: no bound", min: limit(0), max: limit(1 << 30)},
		{path: "dispatch.batching.overflow", doc: "accepted probability that a batch needs more than memory_tokens; 0 is 0.05", min: limit(0), max: limit(0.5)},
		{path: "dispatch.batching.token_latency", doc: "time per output token that the batch size is steered to; 0: no bound", min: limit(0), max: limit(60)},
		{path: "dispatch.batching.bins", doc: "splits requests by expected length; a batch is of one bin", min: limit(0), max: limit(64)},
		{path: "dispatch.batching.boundaries", doc: "lengths at which bins end, rising, one fewer than bins; none: bins of equal mass", min: limit(1)},
		{path: "dispatch.batching.bin_by", doc: "the length that decides", oneOf: []string{string(rollout.OutputLength), string(rollout.TotalLength)}},
		{path: "dispatch.batching.bin_select", doc: "which bin the next batch is taken from", oneOf: []string{string(rollout.OldestHead), string(rollout.LongestQueue), string(rollout.BinsInTurn)}},
		{path: "timeouts", doc: "the longest that anything may take"},
		{path: "timeouts.completion", doc: "one completion, from its dispatch to an engine", above: limit(0)},
		{path: "timeouts.episode", doc: "one game, from its first dispatch", above: limit(0)},
		{path: "timeouts.phase", doc: "one phase of a game, at engines and in the environment; 0: five completions, and at most the episode's time", min: limit(0)},
		{path: "timeouts.heartbeat", doc: "how long a game may be silent before its worker is taken for dead", above: limit(0)},
		{path: "demo", doc: "what millrace dev simulates around the run; servers and workers ignore it"},
		{path: "demo.engines", doc: "simulated engines", min: limit(1), max: limit(64)},
		{path: "demo.engine_max_num_seqs", doc: "requests that a simulated engine runs at a time", min: limit(1), max: limit(4096)},
		{path: "demo.speed", doc: "divides every simulated time", above: limit(0), max: limit(10_000)},
		{path: "demo.load", doc: "the demo trainer's time to load a batch", min: limit(0)},
		{path: "demo.ref_logprobs", doc: "its time for reference log-probabilities", min: limit(0)},
		{path: "demo.train", doc: "its time to train", min: limit(0)},
		{path: "demo.publish", doc: "its time to write an adapter", min: limit(0)},
	},
	hints: map[string]string{
		"group.size":                "unknown key; did you mean group.samples?",
		"buffer.size":               "unknown key; the buffer holds buffer.depth times buffer.groups_per_step groups",
		"dispatch.engines":          "engines do not belong to a run; add them with: millrace engine add URL",
		"engines":                   "engines do not belong to a run; add them with: millrace engine add URL",
		"sampling.n":                "every turn is one completion; did you mean group.samples?",
		"sampling.stop":             "stop texts belong to the environment",
		"sampling.seed":             "requests get their own seeds from the run's seed; did you mean seed?",
		"environment.max_tokens":    "did you mean sampling.max_tokens?",
		"buffer.samples_per_group":  "unknown key; did you mean group.samples?",
		"group.samples_per_group":   "unknown key; did you mean samples?",
		"group.groups_per_step":     "unknown key here; did you mean buffer.groups_per_step?",
		"adapters.lora_rank":        "unknown key; did you mean rank?",
		"sampling.presence_penalty": "penalties change the distribution that log-probabilities are of, and are not taken",
	},
}

// ReadSpec reads a run spec from YAML or JSON. Its error is Faults: everything that is wrong, with places in the
// file called name.
func ReadSpec(name string, data []byte, env Environments) (rollout.Spec, error) {
	spec := DefaultSpec()
	r := &reader{file: name, table: specTable}
	r.read(data, &spec)
	if len(r.places) == 0 && len(r.faults) > 0 {
		return rollout.Spec{}, r.faults.err() // Nothing could be read, so nothing can be judged.
	}
	if spec.Group.MinSamples == 0 && r.places["group.min_samples"] == nil {
		spec.Group.MinSamples = spec.Group.Samples
	}
	r.check(&spec)
	r.checkSpec(&spec)
	r.checkEnvironment(&spec.Environment, env)
	if err := r.faults.err(); err != nil {
		return rollout.Spec{}, err
	}
	leaveOut(&spec)
	return spec, nil
}

// leaveOut leaves out what says the same when it is empty, of the keys that earlier versions did not have: read by
// both, a spec without them is the same, and may be started again.
func leaveOut(spec *rollout.Spec) {
	if spec.Buffer.Order == rollout.StartOrder {
		spec.Buffer.Order = ""
	}
	if spec.Group.ZeroVariance == rollout.KeepFlat {
		spec.Group.ZeroVariance = ""
	}
}

// CheckSpec judges a spec that did not come from a file, such as one built by a program.
func CheckSpec(name string, spec rollout.Spec, env Environments) error {
	data, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("check run spec: %w", err)
	}
	_, err = ReadSpec(name, data, env)
	return err
}

// checkSpec is the rules that concern more than one key, or more than a number.
func (r *reader) checkSpec(spec *rollout.Spec) {
	fail := func(when bool, path, format string, args ...any) {
		if when && !r.hasFault(path) {
			r.faultAt(path, format, args...)
		}
	}
	if err := spec.Name.Validate(); err != nil {
		fail(spec.Name != "", "name", "%v", err)
	}
	fail(strings.ContainsFunc(spec.Model, func(c rune) bool { return c <= ' ' || c > '~' }), "model",
		"%q: a model's name has no spaces and only printable ASCII", spec.Model)
	fail(len(spec.Model) > maxModelBytes, "model", "a name of %d characters; %d are the most", len(spec.Model), maxModelBytes)
	fail(spec.Group.MinSamples > spec.Group.Samples, "group.min_samples", "%d is more than group.samples, which is %d", spec.Group.MinSamples, spec.Group.Samples)
	fail(spec.Group.ZeroVariance == rollout.DropFlat && spec.Group.MinSamples < 2, "group.zero_variance",
		"drop needs group.min_samples of 2 or more, not %d: a single episode has no variance, so that every group would be dropped", spec.Group.MinSamples)
	fail(spec.Group.Samples+spec.Group.Oversample > rollout.MaxEpisodes, "group.oversample",
		"%d beyond group.samples %d is more than %d episodes", spec.Group.Oversample, spec.Group.Samples, rollout.MaxEpisodes)
	b := spec.Buffer
	fail(b.GroupsPerStep > 0 && b.Depth > 0 && b.Outstanding() > rollout.MaxOutstanding, "buffer.depth",
		"%d times groups_per_step %d is %d outstanding groups; %d is the most", b.Depth, b.GroupsPerStep, b.Outstanding(), rollout.MaxOutstanding)
	bins := spec.Dispatch.Batching
	fail(len(bins.Boundaries) > 0 && len(bins.Boundaries) != bins.Bins-1, "dispatch.batching.boundaries",
		"%d boundaries for %d bins; want one fewer than there are bins, or none", len(bins.Boundaries), bins.Bins)
	fail(!slices.IsSorted(bins.Boundaries), "dispatch.batching.boundaries", "%v do not rise", bins.Boundaries)
	fail(!strings.HasPrefix(spec.Adapters.PathPrefix, "/"), "adapters.path_prefix", "%q is not an absolute path", spec.Adapters.PathPrefix)
	r.checkPolicies(spec)
	t := spec.Timeouts
	fail(t.Completion > t.Episode, "timeouts.completion", "%v is longer than timeouts.episode, which is %v", t.Completion, t.Episode)
	fail(t.Phase > t.Episode, "timeouts.phase", "%v is longer than timeouts.episode, which is %v", t.Phase, t.Episode)
	fail(t.Phase > 0 && t.Phase < t.Completion, "timeouts.phase", "%v is shorter than timeouts.completion, which is %v", t.Phase, t.Completion)
	fail(t.Heartbeat > t.Episode, "timeouts.heartbeat", "%v is longer than timeouts.episode, which is %v", t.Heartbeat, t.Episode)
}

// policyName keeps names usable in the names of adapters.
var policyName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

func (r *reader) checkPolicies(spec *rollout.Spec) {
	if n := len(spec.Policies); n > maxPolicies {
		r.faultAt("policies", "%d policies; a run may have %d, for every engine loads them all", n, maxPolicies)
		return
	}
	seen := map[string]int{}
	for i, p := range spec.Policies {
		at := fmt.Sprintf("policies[%d]", i)
		switch first, again := seen[p.Name]; {
		case p.Name == "":
		case !policyName.MatchString(p.Name):
			r.faultAt(at+".name", "%q: use up to 40 letters, digits, '_' and '-'", p.Name)
		case again:
			r.faultAt(at+".name", "the same as policies[%d].name", first)
		}
		if p.Path != "" && !strings.HasPrefix(p.Path, "/") {
			r.faultAt(at+".path", "%q is not an absolute path", p.Path)
		} else if _, err := spec.Adapters.Clean(p.Path); p.Path != "" && err != nil && !r.hasFault("adapters.path_prefix") {
			r.faultAt(at+".path", "%v", err)
		}
		seen[p.Name] = i
	}
}
