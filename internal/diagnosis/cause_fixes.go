package diagnosis

import (
	"fmt"

	"github.com/millrace/millrace/internal/units"
)

// fixOf is what removes a changed condition. It is never something that the run would refuse.
func fixOf(m *measurements, c *comparison, one Cause) *Fix {
	name := string(m.in.Spec.Name)
	const add = "millrace engine add URL"
	switch one.Name {
	case CauseEngineSlow:
		return slowEngineFix(m, c)
	case CauseEngineLost:
		return &Fix{Text: "start the engine again, or another one in its place", Command: add}
	case CauseScaleDown:
		return &Fix{Text: "bring the engines back that were taken out", Command: add}
	case CauseEngineBack, CauseColdEngines:
		return &Fix{Text: "nothing: the engines are there now. Find out why they were not"}
	case CauseOtherWork:
		return &Fix{Text: "let the other runs end or pause, or add engines for both", Command: add}
	case CauseAdapterLoad:
		return &Fix{Text: "make loads cheaper: adapters on a disk that the engines reach fast, a smaller rank, " +
			"room for more adapters in an engine (--max-loras), fewer publications"}
	case CauseOwnLimit:
		return &Fix{Text: "leave the limit to the engines",
			Command: live(m, setCommand(m, "dispatch.max_in_flight_per_engine=0"))}
	case CauseHandover:
		return &Fix{Text: "look for what delays the claim: Redis and the API servers, the network to the trainer, " +
			"how often the trainer asks, the size of the answer"}
	case CausePublish:
		return &Fix{Text: "publish while the next step is trained on, or faster: where the trainer writes the weights, " +
			"and from where the engines read them"}
	case CauseTrainer, CauseRefLogprobs:
		return &Fix{Text: "look at the trainer: its own phase takes longer, and neither engines nor depth change that"}
	case CauseCheckpoint:
		return &Fix{Text: "write checkpoints less often, or in the background"}
	case CauseEnvironment:
		return &Fix{Text: "look at the environment: it takes longer for each request, and engines do not change that; " +
			"workers with more CPU do, if theirs are busy"}
	case CauseLongerCompletions:
		return &Fix{Text: "look at what the policy writes: a smaller sampling.max_tokens in the next run, " +
			"or engines for the longer completions"}
	case CauseLongerPrompts:
		return &Fix{Text: "look at what the environment puts into its prompts, or add engines for the longer ones"}
	case CauseLongerGames:
		return &Fix{Text: "look at why games last longer: a shorter horizon in the next run, or engines for the longer ones"}
	case CauseLowerPrefixHits:
		return &Fix{Text: "see that engines cache prefixes (--enable-prefix-caching), have KV room for them, " +
			"and that a game's requests go to the same engine (dispatch.policy, dispatch.affinity_slack)"}
	case CauseMoreGames, CauseDrops:
		return &Fix{Text: "avoid the games that come to nothing: see what they are dropped for, or why they are played again"}
	case CauseStaleDrops:
		return &Fix{Text: "keep groups from becoming stale: wait for them instead of dropping them",
			Command: live(m, fmt.Sprintf("millrace run set %s buffer.on_stale=wait", name))}
	case CauseStraggler:
		return stragglerFix(m, c)
	case CauseWorkers:
		return &Fix{Text: "start more workers", Command: "millrace worker"}
	}
	return nil
}

// live is a command that changes a run, which one that is over would refuse.
func live(m *measurements, command string) string {
	if m.in.Over {
		return ""
	}
	return command
}

// slowEngineFix drains the slow engines. Doubling them would leave them slow.
func slowEngineFix(m *measurements, c *comparison) *Fix {
	names := slowEngineNames(m, c)
	switch {
	case len(names) == 1 && names[0] != allEngines:
		return &Fix{Text: "take the slow engine out and put another in its place",
			Command: "millrace engine remove " + names[0]}
	case len(names) > 1:
		return &Fix{Text: "take the slow engines out, one after another, and put others in their place",
			Command: "millrace engine remove " + names[0]}
	}
	return &Fix{Text: "look at what the engines share (clocks, power, heat, other processes on the GPUs, a new " +
		"version), and replace those that are slow", Command: "millrace engine top"}
}

// stragglerFix does without the slowest game of a group, where that is what is slow.
func stragglerFix(m *measurements, c *comparison) *Fix {
	samples, least := m.in.Spec.Group.Samples, m.in.Spec.Group.MinSamples
	inside := c == nil || c.now.or(condWithin, 1) >= c.now.or(condBetween, 1)
	if inside && samples > 2 && (least == 0 || least == samples) {
		return &Fix{Text: fmt.Sprintf("do without the slowest game of each group: %s", doWithoutSlowest(samples)),
			Command: live(m, setCommand(m, doWithoutSlowest(samples)))}
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
