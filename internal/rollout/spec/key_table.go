package spec

import (
	"time"

	"github.com/millrace/millrace/internal/kit/settings"

	"github.com/millrace/millrace/internal/rollout/runspec"
)

// Bounds of a run, beside those of its buffer in package rollout. Every game of a run carries the names of its fixed
// policies, through Temporal and in each worker, and every engine loads them.
const (
	maxTokens     = 131_072
	maxModelBytes = 256
	maxPolicies   = 64
)

func at(bound float64) *float64 { return settings.Bound(bound) }

func words[T ~string](all ...T) []string {
	texts := make([]string, len(all))
	for i, word := range all {
		texts[i] = string(word)
	}
	return texts
}

// inSetup is said of the sections that a run spec has only where it is simulated.
const inSetup = "belongs to the setup of a simulation; see millrace simulate, and: millrace config check --setup FILE"

// keys is the table: one row for every key of a run spec. A default is part of what a spec without the key means and
// never changes: give a key another name instead.
var keys = settings.Table{
	Keys: []settings.Key{
		{Path: "name", Required: true, Example: "diplomacy-qwen7b",
			Doc: "the run's name, unique in the service: a-z 0-9 . _ -"},
		{Path: "model", Required: true, Example: "Qwen/Qwen2.5-7B-Instruct",
			Doc: "the base model, as the engines serve it"},
		{Path: "steps", Required: true, Min: at(1), Max: at(runspec.MaxSteps), Live: true,
			Doc: "optimizer steps of the whole run"},
		{Path: "seed", Min: at(0), Doc: "makes scenarios and sampling repeatable"},
		{Path: "environment", Example: "{kind: diplomacy}",
			Doc: "what is played: a kind, and the options of that kind"},
		{Path: "environment.kind", Example: "diplomacy", Doc: "which environment is played"},
		{Path: "group", Doc: "the episodes of one scenario whose rewards are compared"},
		{Path: "group.samples", Default: 6, Min: at(1), Max: at(runspec.MaxEpisodes), Live: true,
			Doc: "episodes forked from each scenario"},
		{Path: "group.min_samples", Min: at(1), Max: at(runspec.MaxEpisodes), Live: true,
			Doc: "episodes that must succeed for the group to be trained on; all of them, if not given"},
		{Path: "group.oversample", Min: at(0), Max: at(runspec.MaxEpisodes), Live: true,
			Doc: "episodes started beyond samples; once samples have succeeded, the others are cancelled"},
		{Path: "group.grace", Min: at(0), Live: true,
			Doc: "how long episodes may still take once min_samples have succeeded, before they are cancelled; 0: to " +
				"their end"},
		{Path: "group.zero_variance", Default: runspec.KeepZeroVariance,
			OneOf: words(runspec.KeepZeroVariance, runspec.DropZeroVariance),
			Live:  true,
			Doc: "what becomes of a group whose rewards are all equal: keep and count it, or drop it and launch one " +
				"in its place"},
		{Path: "buffer", Doc: "what may be outstanding, and what may be trained on"},
		{Path: "buffer.depth", Default: 2, Min: at(1), Max: at(runspec.MaxDepth), Live: true,
			Doc: "steps' worth of groups kept queued, in flight or ready"},
		{Path: "buffer.groups_per_step", Default: 8, Min: at(1), Max: at(runspec.MaxOutstanding), Live: true,
			Doc: "groups in a step's batch"},
		{Path: "buffer.max_staleness", Default: 4, Min: at(0), Max: at(runspec.MaxStaleness), Live: true,
			Doc: "versions that a group may be behind the trainer when it is claimed; engines need room for that many " +
				"adapters and two more"},
		{Path: "buffer.on_stale", Default: runspec.DropStale,
			OneOf: words(runspec.DropStale, runspec.KeepStale, runspec.WaitStale), Live: true,
			Doc: "what becomes of a group that is too stale: drop and launch another; keep and count it; or let the " +
				"trainer wait so that none becomes too stale"},
		{Path: "buffer.order", Default: runspec.StartOrder, OneOf: words(runspec.StartOrder, runspec.FinishOrder),
			Doc: "which ready groups a batch takes: those launched first, or those finished first, which favours " +
				"short games"},
		{Path: "buffer.max_bytes", Min: at(0), Bytes: true, Example: "2GiB", Live: true,
			Doc: "bytes of stored trajectories, such as 500MiB or 2GiB, beyond which no more groups are launched than " +
				"the next batch needs; 0: no bound"},
		{Path: "buffer.prefill", Default: runspec.PrefillFull, OneOf: words(runspec.PrefillFull, runspec.PrefillBatch),
			Doc: "what must be ready before step 0: the full buffer, depth times groups_per_step, or the first batch " +
				"alone"},
		{Path: "sampling", Doc: "how engines sample; every field is sent with every request"},
		{Path: "sampling.temperature", Default: 1, Min: at(0), Max: at(2), Doc: "0 takes the likeliest token"},
		{Path: "sampling.top_p", Default: 1, Above: at(0), Max: at(1),
			Doc: "share of the probability that is sampled from"},
		{Path: "sampling.top_k", Min: at(-1), Doc: "tokens that are sampled from; 0 or -1 is all"},
		{Path: "sampling.max_tokens", Default: 256, Min: at(1), Max: at(maxTokens), Doc: "length of a completion"},
		{Path: "sampling.vocabulary", Min: at(0), Max: at(1 << 20),
			Doc: "the model's vocab_size; a completion with another token id is refused; 0: ids are below 1048576"},
		{Path: "adapters", Doc: "the LoRA adapters that the trainer publishes"},
		{Path: "adapters.rank", Default: 32, OneOf: []string{"1", "8", "16", "32", "64", "128", "256", "320", "512"},
			Doc: "LoRA rank; engines must be started with --max-lora-rank at least as high"},
		{Path: "adapters.path_prefix", Default: "/adapters", Required: true,
			Doc: "where the trainer writes adapters, as the engines see it; nothing outside of it is published or " +
				"read, fixed policies included"},
		{Path: "adapters.quorum", Min: at(0), Max: at(1000),
			Doc: "engines that must serve a new version before games use it; 0 is all that can load it within " +
				"load_timeout of the first"},
		{Path: "adapters.load_timeout", Min: at(0), Max: at(600),
			Doc: "how long a new version waits for slower engines when the first has loaded it, without a quorum; 0 " +
				"is 20s"},
		{Path: "policy_refresh", Default: runspec.RefreshGroup,
			OneOf: words(runspec.RefreshGroup, runspec.RefreshTurn),
			Doc: "whether the games of a group keep the version that it was launched with, or take the newest at each " +
				"turn"},
		{Path: "policies", Doc: "policies that do not learn; environment options name them as opponents; 64 at most"},
		{Path: "policies.name", Required: true, Example: "frozen",
			Doc: "the policy's name: letters, digits, '_' and '-'"},
		{Path: "policies.path", Example: "/adapters/frozen",
			Doc: "its adapter, as the engines see it; the base model, if not given"},
		{Path: "dispatch", Doc: "how requests are spread over the engines"},
		{Path: "dispatch.policy", Default: runspec.LeastTokens, OneOf: words(runspec.LeastTokens, runspec.RoundRobin),
			Doc: "how an engine is chosen"},
		{Path: "dispatch.max_in_flight_per_engine", Min: at(0), Max: at(100_000), Live: true,
			Doc: "requests at a time on one engine; 0 leaves it to the engine"},
		{Path: "dispatch.affinity_slack", Min: at(-1), Max: at(100_000),
			Doc: "requests' worth of work that the engine with a game's prefix may have more than the least loaded " +
				"and still be preferred; 0 is 8, negative: no affinity"},
		{Path: "dispatch.group_per_engine", Min: at(0), Max: at(runspec.MaxEpisodes),
			Doc: "episodes of a group that start on one engine, for their common prefix, before the next engine takes " +
				"over; 0: wherever there is least to do"},
		{Path: "dispatch.adapter_slots", Min: at(0), Max: at(1024),
			Doc: "adapters that an engine can have in its batch, vLLM's --max-loras: when more are in use, each keeps " +
				"to its own engines; 0: not known"},
		{Path: "dispatch.order", Default: runspec.OldestGroup,
			OneOf: words(runspec.OldestGroup, runspec.ArrivalOrder, runspec.ShortestFirst),
			Doc:   "which request goes next"},
		{Path: "dispatch.ageing", Min: at(0), Max: at(100_000),
			Doc: "for shortest_first: tokens that a request seems shorter for each second that it waits; 0 lets long " +
				"ones starve"},
		{Path: "dispatch.queue", Default: runspec.SharedQueue, OneOf: words(runspec.SharedQueue, runspec.EngineQueue),
			Doc: "one queue for all engines, or one for each, chosen on arrival"},
		{Path: "timeouts", Doc: "the longest that anything may take"},
		{Path: "timeouts.completion", Default: time.Minute, Above: at(0),
			Doc: "one completion, from its dispatch to an engine"},
		{Path: "timeouts.episode", Default: 15 * time.Minute, Above: at(0), Doc: "one game, from its first dispatch"},
		{Path: "timeouts.phase", Min: at(0),
			Doc: "one phase of a game, at engines and in the environment; 0: five completions, and at most the " +
				"episode's time"},
		{Path: "timeouts.heartbeat", Default: 10 * time.Second, Above: at(0),
			Doc: "how long a game may be silent before its worker is taken for dead; from 10s on the worker's own " +
				"announcements tell of its death, and this is how soon a game knows that its group is over"},
		{Path: "priority", Min: at(-1000), Max: at(1000), Live: true,
			Doc: "which run gets engines first where scaling may not have as many as all need: the highest; it does " +
				"not order requests"},
		{Path: "max_engines", Min: at(0), Max: at(1024), Live: true,
			Doc: "engines that scaling may have for the sake of this run; 0: as many as the fleet may have"},
	},
	Hints: map[string]string{
		"group.size":                "unknown key; did you mean group.samples?",
		"buffer.size":               "unknown key; the buffer holds buffer.depth times buffer.groups_per_step groups",
		"dispatch.engines":          "engines do not belong to a run; add them with: millrace engine add URL",
		"engines":                   "engines do not belong to a run; add them with: millrace engine add URL",
		"fleet":                     inSetup,
		"trainer":                   inSetup,
		"workload":                  inSetup,
		"overheads":                 inSetup,
		"paused":                    "a run is paused with: millrace run pause NAME; and: millrace run resume NAME",
		"sampling.n":                "every turn is one completion; did you mean group.samples?",
		"sampling.stop":             "stop texts belong to the environment",
		"sampling.seed":             "requests get their own seeds from the run's seed; did you mean seed?",
		"environment.max_tokens":    "did you mean sampling.max_tokens?",
		"buffer.samples_per_group":  "unknown key; did you mean group.samples?",
		"group.samples_per_group":   "unknown key; did you mean group.samples?",
		"group.groups_per_step":     "unknown key here; did you mean buffer.groups_per_step?",
		"adapters.lora_rank":        "unknown key; did you mean adapters.rank?",
		"sampling.presence_penalty": "penalties change the distribution that log-probabilities are of, and are not taken",
	},
}
