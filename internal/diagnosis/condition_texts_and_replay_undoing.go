package diagnosis

import (
	"fmt"
	"math"

	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// conditionKind describes a condition for reports and replays.
type conditionKind struct {
	cause CauseName // what it is called when it changed, and nothing behind it is known
	says  string    // with what it is now and what it was
	// factor is the factor of a replay that restores the condition; back restores it otherwise. Conditions with neither
	// are restored by respread, or follow from others and never are.
	factor func(*change) *float64
	back   func(c *change, b *butFor, old, now float64)
}

// phaseOf is the position in rollout.Phases of the phase that a condition is the time of.
var phaseOf = map[condition]int{
	condLoad: loadAt, condRef: refAt, condTrain: trainAt, condPublish: publishAt, condCheckpoint: checkpointAt,
	condOther: otherAt,
}

var conditionKinds = [conditionCount]conditionKind{
	condLoad:       {cause: CauseTrainer, back: computeBack},
	condRef:        {cause: CauseRefLogprobs, back: computeBack},
	condTrain:      {cause: CauseTrainer, back: computeBack},
	condPublish:    {cause: CausePublish, back: computeBack},
	condCheckpoint: {cause: CauseCheckpoint, back: computeBack},
	condOther:      {cause: CauseTrainer, back: computeBack},
	condHandover: {cause: CauseHandover, says: "a batch that is ready takes %s s to reach the trainer, was %s s",
		back: func(c *change, _ *butFor, old, now float64) { c.handoverSec -= now - old }},
	condGroups: {cause: CauseMoreGames, says: "a batch has %s groups, had %s",
		back: func(c *change, _ *butFor, old, _ float64) { c.take = whole(old) }},
	condPlayed: {cause: CauseMoreGames, says: "%s groups are played for each one trained on, were %s", factor: games},
	condGames:  {cause: CauseMoreGames, says: "a group has %s games, had %s", factor: games},
	condRetries: {cause: CauseMoreGames, factor: games,
		says: "engines generate %s tokens for each one that is needed, were %s: games are played again"},
	condRequests: {cause: CauseLongerGames, says: "a game has %s requests, had %s",
		factor: func(c *change) *float64 { return &c.gameLength }},
	condPrompt:   {cause: CauseLongerPrompts, says: "a prompt has %s tokens, had %s", back: useBack(condPrompt)},
	condUncached: {cause: CauseLowerPrefixHits, back: useBack(condUncached)},
	condCompletion: {cause: CauseLongerCompletions, says: "a completion has %s tokens, had %s",
		back: useBack(condCompletion)},
	condEnv: {cause: CauseEnvironment, says: "the environment takes %s s for each request, took %s s",
		factor: func(c *change) *float64 { return &c.envTime }},
	condWithin: {cause: CauseStraggler,
		says: "the slowest game of a group takes %s times as long as a typical one, took %s times"},
	condBetween: {cause: CauseStraggler,
		says: "the slowest group of a batch takes %s times as long as a typical one, took %s times"},
	condEngines: {cause: CauseEngineLost, says: "engines that are ready: %s, were %s",
		factor: func(c *change) *float64 { return &c.engines }},
	condLimit: {cause: CauseOwnLimit, says: "an engine may have %s requests in flight, might have %s",
		back: func(c *change, _ *butFor, old, _ float64) { c.engineLimit = whole(old) }},
	condOthers: {cause: CauseOtherWork, says: "%s requests in flight are not this run's, were %s",
		factor: func(c *change) *float64 { return &c.otherWork }},
	condStall: {cause: CauseAdapterLoad,
		says: "adapter loads keep each engine busy for %s s per step, kept it for %s s",
		back: func(c *change, _ *butFor, old, now float64) { c.stallSec -= now - old }},
	condMemory: {cause: CauseKVLimited, back: slownessBack(condMemory),
		says: "an engine's KV cache has room for %s tokens, had room for %s: requests wait inside the engines"},
	condSpeed: {cause: CauseEngineSlow, back: slownessBack(condSpeed)},
	condDepth: {cause: CauseThrottle, says: "batches that may be outstanding: %s, were %s",
		back: func(c *change, b *butFor, old, _ float64) {
			c.depth = whole(old)
			c.admitted = max(c.depth, b.limit)
		}},
}

func computeBack(c *change, _ *butFor, old, now float64) { c.computeSec -= now - old }

func games(c *change) *float64 { return &c.games }

// useBack and slownessBack take away what a condition made requests slower by.
func useBack(which condition) func(*change, *butFor, float64, float64) {
	return func(c *change, b *butFor, _, _ float64) { by(&c.requestUse, 1/b.slower[which]) }
}

func slownessBack(which condition) func(*change, *butFor, float64, float64) {
	return func(c *change, b *butFor, _, _ float64) { by(&c.engineTime, 1/b.slower[which]) }
}

// by multiplies a factor of a change: never to 0, which would leave things as they are.
func by(f *float64, with float64) { *f = factor(*f) * max(1e-9, with) }

// whole is a mean of counts as a count.
func whole(mean float64) int { return max(1, int(math.Round(mean))) }

// conditionText says what a condition is, and was.
func conditionText(c *comparison, which condition) string {
	old, now := c.old[which], c.now[which]
	at, phase := phaseOf[which]
	switch {
	case phase:
		return fmt.Sprintf("%s takes %s, took %s", PhaseText(steprecord.Phases()[at]), units.Seconds(now),
			units.Seconds(old))
	case which == condUncached:
		return fmt.Sprintf("engines find %s of the prompt tokens in their prefix caches, found %s",
			units.Percent(1-now), units.Percent(1-old))
	case which == condEnv && !c.now.known(condRequests):
		return fmt.Sprintf("the environment takes %s s of a game, took %s s", units.Number(now), units.Number(old))
	case which == condSpeed:
		return fmt.Sprintf("a request takes %s at its engine, took %s, with %s requests in flight at an engine, were %s: "+
			"engines are %s times as slow for the same tokens", units.Seconds(c.now[condRequestSec]),
			units.Seconds(c.old[condRequestSec]), units.Number(c.now[condInFlight]), units.Number(c.old[condInFlight]),
			units.Number(now/old))
	}
	return fmt.Sprintf(conditionKinds[which].says, units.Number(now), units.Number(old))
}
