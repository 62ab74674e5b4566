package sim

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/kit/settings"

	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
	"github.com/millrace/millrace/internal/simulate/sim/workload"
)

// The kinds of a fleet's events.
const (
	LoseEngine  = "lose"
	DrainEngine = "drain"
	AddEngine   = "add"
	SlowEngine  = "slow"
)

// DefaultProfile is the hardware of a fleet that says nothing of it.
const DefaultProfile = enginemodel.DefaultProfile

func at(bound float64) *float64 { return settings.Bound(bound) }

// maxEngines, maxVariation and maxPhase bound a setup to what a simulation of it can still tell.
const (
	maxEngines   = 1024
	maxVariation = 5
	maxPhase     = 86_400 // seconds
)

// sections is the rows of the keys that a setup has beside a spec's.
var sections = settings.Table{
	Keys: []settings.Key{
		{Path: "fleet", Doc: "the engines, and what becomes of them"},
		{Path: "fleet.engines", Default: 2, Min: at(1), Max: at(maxEngines), Doc: "engines at the start of the run"},
		{Path: "fleet.profile", Default: DefaultProfile,
			Doc: "how fast an engine is: a hardware profile that comes with the program, " +
				strings.Join(enginemodel.Profiles(), ", ") + ", or the path of a profile's file, such as ./my-gpu.json"},
		{Path: "fleet.call_time", Min: at(0), Max: at(86_400),
			Doc: "what every completion takes, whatever it is, on an engine without a profile that runs max_num_seqs at " +
				"once; 0: the profile says how long each takes"},
		{Path: "fleet.time_factor", Default: 1, Min: at(0), Max: at(10_000),
			Doc: "multiplies every time of the profile: 0.5 is an engine of twice the speed; 0 is 1"},
		{Path: "fleet.max_num_seqs", Min: at(0), Max: at(100_000),
			Doc: "sequences that an engine runs at once, vLLM's --max-num-seqs; 0: the profile's"},
		{Path: "fleet.max_in_flight", Min: at(0), Max: at(100_000),
			Doc: "requests that are given to an engine at once, as millrace engine add --max-in-flight; 0: the service's " +
				"default"},
		{Path: "fleet.max_loras", Min: at(0), Max: at(1024),
			Doc: "adapters in one batch, vLLM's --max-loras; 0: the profile's"},
		{Path: "fleet.cold_start", Min: at(0), Doc: "from the start of an engine to its first answer"},
		{Path: "fleet.events", Doc: "what becomes of engines, in order of time"},
		{Path: "fleet.events.at", Min: at(0), Doc: "when it happens, since the start of the run"},
		{Path: "fleet.events.step", Min: at(0), Max: at(runspec.MaxSteps),
			Doc: "or at which step's claim, where at is not given"},
		{Path: "fleet.events.engine", Min: at(0), Max: at(maxEngines),
			Doc: "which engine; the first is 0, and an added one has the next number"},
		{Path: "fleet.events.kind", Required: true, OneOf: []string{LoseEngine, DrainEngine, AddEngine, SlowEngine},
			Doc: "lose: its requests are played again elsewhere; drain: it ends what it has; add: one more engine, after " +
				"its cold start; slow: its work takes factor times as long"},
		{Path: "fleet.events.factor", Min: at(0), Max: at(1000),
			Doc: "for slow: what the times of the engine are multiplied by; 1 makes it as fast as before"},

		{Path: "trainer", Doc: "what the trainer does with a batch; its phases, one after another"},
		{Path: "trainer.load", Default: 5 * time.Second, Min: at(0), Max: at(maxPhase), Doc: "time to load a batch"},
		{Path: "trainer.ref_logprobs", Default: 30 * time.Second, Min: at(0), Max: at(maxPhase),
			Doc: "time for reference log-probabilities"},
		{Path: "trainer.train", Default: time.Minute, Min: at(0), Max: at(maxPhase), Doc: "time to train"},
		{Path: "trainer.publish", Default: 5 * time.Second, Min: at(0), Max: at(maxPhase),
			Doc: "time of the phase in which an adapter is written and loaded; longer only if engines take longer"},
		{Path: "trainer.publish_in_background",
			Doc: "the next step begins while engines load the new version"},
		{Path: "trainer.checkpoint", Min: at(0), Max: at(maxPhase), Doc: "time to write a checkpoint"},
		{Path: "trainer.checkpoint_every", Min: at(0), Max: at(runspec.MaxSteps),
			Doc: "steps from one checkpoint to the next; 0: none is written"},
		{Path: "trainer.variation", Min: at(0), Max: at(maxVariation),
			Doc: "coefficient of variation of each phase; 0: always the same"},

		{Path: "workload", Doc: "where games come from: exactly one of the sources below"},
		{Path: "workload.distribution", Doc: "games drawn from distributions"},
		{Path: "workload.distribution.phases", Example: "{mean: 12}", Doc: "rounds of decisions in a game"},
		{Path: "workload.distribution.phases.mean", Default: 6, Above: at(0), Max: at(workload.MaxPhases),
			Doc: "phases of a game"},
		spread("workload.distribution.phases.spread"),
		{Path: "workload.distribution.agents", Example: "{mean: 7}", Doc: "agents that decide in a phase, all at once"},
		{Path: "workload.distribution.agents.mean", Default: 1, Min: at(0), Max: at(1024), Doc: "requests of a phase"},
		spread("workload.distribution.agents.spread"),
		{Path: "workload.distribution.prompt_tokens", Example: "{mean: 440, spread: 0.2}", Doc: "tokens of a prompt"},
		{Path: "workload.distribution.prompt_tokens.mean", Default: 440, Above: at(0), Max: at(workload.MaxTokens),
			Doc: "tokens of a prompt of the first phase"},
		spread("workload.distribution.prompt_tokens.spread"),
		{Path: "workload.distribution.prompt_growth", Min: at(0), Max: at(workload.MaxTokens),
			Doc: "tokens that a prompt is longer than that of the phase before"},
		{Path: "workload.distribution.output_tokens", Example: "{mean: 24, spread: 0.5}", Doc: "tokens of an answer"},
		{Path: "workload.distribution.output_tokens.mean", Default: 24, Above: at(0), Max: at(workload.MaxTokens),
			Doc: "tokens of an answer"},
		spread("workload.distribution.output_tokens.spread"),
		{Path: "workload.distribution.env_seconds", Example: "{mean: 0.01}", Doc: "seconds in the environment in each phase"},
		{Path: "workload.distribution.env_seconds.mean", Min: at(0), Max: at(86_400),
			Doc: "seconds in the environment in each phase"},
		spread("workload.distribution.env_seconds.spread"),
		{Path: "workload.distribution.shared_tokens",
			Doc: "leading tokens that prompts have in common, for engines' prefix caches; all counted from the start of a " +
				"prompt"},
		{Path: "workload.distribution.shared_tokens.system", Min: at(0), Max: at(workload.MaxTokens),
			Doc: "of all prompts of the run"},
		{Path: "workload.distribution.shared_tokens.group", Min: at(0), Max: at(workload.MaxTokens),
			Doc: "of one agent's prompts in all games of a group"},
		{Path: "workload.distribution.shared_tokens.game", Min: at(0), Max: at(workload.MaxTokens),
			Doc: "of one agent's prompts in one game"},
		{Path: "workload.distribution.failure_share", Min: at(0), Max: at(1), Doc: "share of games that come to nothing"},
		{Path: "workload.distribution.zero_variance_share", Min: at(0), Max: at(1),
			Doc: "share of groups whose rewards are all equal"},
		{Path: "workload.distribution.straggler_share", Min: at(0), Max: at(1),
			Doc: "share of games that are straggler_factor times as long"},
		{Path: "workload.distribution.straggler_factor", Default: 3, Min: at(0), Max: at(1000),
			Doc: "how many times as many phases those games have"},
		{Path: "workload.recorded", Doc: "the games of a recorded run"},
		{Path: "workload.recorded.file", Example: "run.record.json",
			Doc: "the run's record, as millrace run record writes it; a path from where the command runs"},
		{Path: "workload.bots", Doc: "games of the spec's environment, played among its bots"},
		{Path: "workload.bots.groups", Min: at(0), Max: at(100_000),
			Doc: "how many different groups are played before they come again; 0 is 12"},
		{Path: "workload.bots.answers", Default: BotAnswers, OneOf: []string{BotAnswers, DrawnAnswers},
			Doc: "who answers the prompts: the environment's bots, where it has any; or drawn by chance from what each " +
				"prompt's constraint allows, as the engines of millrace dev do"},

		{Path: "overheads", Doc: "what the service and the network add, in wall time, whatever the time factor"},
		{Path: "overheads.call", Default: 5 * time.Millisecond, Min: at(0), Max: at(60),
			Doc: "of each completion: there and back, without the engine's own time"},
		{Path: "overheads.phase", Default: 5 * time.Millisecond, Min: at(0), Max: at(600),
			Doc: "of each phase of a game beside its requests: environment, checkpoint"},
		{Path: "overheads.launch", Default: 50 * time.Millisecond, Min: at(0), Max: at(600),
			Doc: "from a group's launch to its first request"},
		{Path: "overheads.commit", Default: 20 * time.Millisecond, Min: at(0), Max: at(600),
			Doc: "from the end of a group's last game to its being ready"},
		{Path: "overheads.claim", Default: 10 * time.Millisecond, Min: at(0), Max: at(600),
			Doc: "from a batch being ready to the trainer having it"},
		{Path: "overheads.slots", Min: at(0), Max: at(1_000_000),
			Doc: "games that all workers play at once; 0: any number"},
	},
	Hints: map[string]string{
		"engines":     "unknown key; did you mean fleet.engines?",
		"fleet.speed": "unknown key; did you mean fleet.time_factor? It is one divided by the speed",
		"fleet.gpu":   "unknown key; did you mean fleet.profile?",
		"profile":     "unknown key here; did you mean fleet.profile?",
	},
}

// spread is the row of how much a quantity varies.
func spread(path string) settings.Key {
	return settings.Key{Path: path, Min: at(0), Max: at(maxVariation),
		Doc: "coefficient of variation; the quantity is lognormal; 0: always the mean"}
}

// Table is every key of a setup's file: those of a run spec, then those of the setup's own sections.
func Table() settings.Table {
	runs := spec.Table()
	hints := maps.Clone(runs.Hints)
	maps.Copy(hints, sections.Hints)
	return settings.Table{Keys: slices.Concat(runs.Keys, sections.Keys), Hints: hints}
}

// DefaultSetup is what a setup's file says where it says nothing, before Complete.
func DefaultSetup() Setup {
	s := Setup{Spec: spec.Default()}
	for _, key := range sections.Keys {
		if key.Default != nil {
			key.SetDefault(&s)
		}
	}
	return s
}

// Schema is the JSON schema of setups, for editors.
func Schema() []byte {
	defaults := DefaultSetup()
	return Table().Schema("Millrace simulation setup", &defaults)
}
