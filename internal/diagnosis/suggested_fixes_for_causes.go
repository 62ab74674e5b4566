package diagnosis

import (
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout/spec"
)

// enginesAreThere is all that is to be done about engines that were not.
const enginesAreThere = "nothing: the engines are there now. Find out why they were not"

// fixTexts says how to remove a cause that no command removes.
var fixTexts = map[CauseName]string{
	CauseEngineBack: enginesAreThere, CauseColdEngines: enginesAreThere,
	CauseAdapterLoad: "make loads cheaper: adapters on a disk that the engines reach fast, a smaller rank, " +
		"room for more adapters in an engine (--max-loras), fewer publications",
	CauseHandover: "look for what delays the claim: Redis and the API servers, the network to the trainer, " +
		"how often the trainer asks, the size of the answer",
	CausePublish: "publish while the next step is trained on, or faster: where the trainer writes the weights, " +
		"and from where the engines read them",
	CauseTrainer:     trainerFix,
	CauseRefLogprobs: trainerFix,
	CauseCheckpoint:  "write checkpoints less often, or in the background",
	CauseEnvironment: "look at what the environment takes for each request: engines do not change that; " +
		"workers with more CPU do, if theirs are busy",
	CauseLongerCompletions: "look at what the policy writes: a smaller sampling.max_tokens in the next run, " +
		"or engines for the longer completions",
	CauseLongerPrompts: "look at what the environment puts into its prompts, or add engines for the longer ones",
	CauseLongerGames:   "look at why games last longer: a shorter horizon in the next run, or engines for the longer ones",
	CauseLowerPrefixHits: "see that engines cache prefixes (--enable-prefix-caching), have KV room for them, " +
		"and that a game's requests go to the same engine (dispatch.policy, dispatch.affinity_slack)",
	CauseMoreGames: "avoid the games that come to nothing: see what they are dropped for, or why they are played again",
}

const trainerFix = "look at the trainer: its own phase takes longer, and neither engines nor depth change that"

// fixOf is the fix for a changed condition. Its command is checked.
func fixOf(m *measurements, c *comparison, one Cause) *Fix {
	switch one.Name {
	case CauseEngineSlow:
		return slowEngineFix(m, c)
	case CauseEngineLost, CauseScaleDown:
		return fewerEnginesFix(m, c, one)
	case CauseAdapterSlots:
		return adapterSlotsFix(m)
	case CauseOtherWork:
		return fix(m, "let the other runs end or pause, or add engines for both", m.moreEngines())
	case CauseOwnLimit:
		return fix(m, "leave the limit to the engines", setCommand(m, "dispatch.max_in_flight_per_engine=0"))
	case CauseKVLimited:
		return kvFix(m)
	case CauseStaleDrops:
		return fix(m, "keep groups from becoming stale: wait for them instead of dropping them",
			setCommand(m, "buffer.on_stale=wait"))
	case CauseStraggler:
		return stragglerFix(m, c)
	}
	if text, known := fixTexts[one.Name]; known {
		return &Fix{Text: text}
	}
	return nil
}

// fix is an action, with its command, if the run accepts it. A setting that the run no longer accepts is for the next
// run.
func fix(m *measurements, text, command string) *Fix {
	settings, sets := strings.CutPrefix(command, setCommand(m))
	if m.in.Over && sets && !refused(m, command) {
		text += "; in the spec of the next run: " + settings
	}
	return &Fix{Text: text, Command: checked(m, command)}
}

// checked is a command that changes something and is not refused; empty where the run is over, would refuse it, or is
// that way already.
func checked(m *measurements, command string) string {
	settings, sets := strings.CutPrefix(command, setCommand(m))
	switch {
	case m.in.Over:
		return ""
	case !sets:
		return command
	}
	change, err := spec.ParseChange(strings.Fields(settings))
	if err != nil {
		return ""
	}
	after, err := change.Apply(m.in.Spec)
	if err != nil || reflect.DeepEqual(after, m.in.Spec) {
		return ""
	}
	return command
}

// fewerEnginesFix brings engines back. If the fleet is scaled, scaling replaces a lost one.
func fewerEnginesFix(m *measurements, c *comparison, one Cause) *Fix {
	scaled := m.in.Scaling != nil
	switch {
	case scaled && one.Name == CauseScaleDown:
		return fix(m, "let scaling have as many engines as before, if it was not meant to cost this",
			m.enginesCommand(int(math.Round(c.old[condEngines]))))
	case scaled:
		return fix(m, "nothing, if scaling starts another one in its place: see whether it does", showFleet)
	case one.Name == CauseScaleDown:
		return fix(m, "bring the engines back that were taken out", addEngine)
	}
	return fix(m, "start the engine again, or another one in its place", addEngine)
}

// slowEngineFix drains the slow engines. Doubling them would leave them slow.
func slowEngineFix(m *measurements, c *comparison) *Fix {
	names := slowEngineNames(m, c)
	switch {
	case len(names) == 1 && names[0] != allEngines:
		return fix(m, "take the slow engine out and put another in its place", "millrace engine remove "+names[0])
	case len(names) > 1:
		return fix(m, "take the slow engines out, one after another, and put others in their place",
			"millrace engine remove "+names[0])
	}
	return fix(m, "look at what the engines share (clocks, power, heat, other processes on the GPUs, a new version), "+
		"and replace those that are slow", "millrace engine list")
}

// stragglerFix does without the slowest game of a group, if that is the slow part.
func stragglerFix(m *measurements, c *comparison) *Fix {
	samples, least := m.in.Spec.Group.Samples, m.in.Spec.Group.MinSamples
	inside := c == nil || c.now.or(condWithin, 1) >= c.now.or(condBetween, 1)
	if inside && samples > 2 && (least == 0 || least == samples) {
		return fix(m, "do without the slowest game of each group", setCommand(m, doWithoutSlowest(samples)))
	}
	return &Fix{Text: "a deadline for games (timeouts.episode), or buffer.order=finish, " +
		"so that nobody waits for the slowest"}
}

// ownLimitText says how far a run's own limit is below the engines'.
func ownLimitText(limit, engines float64) string {
	return fmt.Sprintf("dispatch.max_in_flight_per_engine lets the run have %s requests in flight at an engine "+
		"that takes %s",
		units.Number(limit), units.Number(engines))
}
