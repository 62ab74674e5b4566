package calibration

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/diagnosis/runrecord"
	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/simulate/sim"
	"github.com/millrace/millrace/internal/simulate/sim/workload"
)

// Games is the games of a record, as a setup plays them again whose other parameters are its own.
func Games(r *runrecord.Record) (*workload.Recorded, error) {
	c := &calibrator{record: r, steps: r.Done()}
	if err := c.games(); err != nil {
		return nil, err
	}
	c.setup.Workload.Recorded.Games.SpreadAnswers(assumedStretch)
	return c.setup.Workload.Recorded.Games, nil
}

// games is every game that the record knows, by group: from the events of their ends, or, where those are not kept any
// more, from the step records, which have a group's sums and its games' lengths.
func (c *calibrator) games() error {
	groups := map[rollout.GroupSeq]*workload.RecordedGroup{}
	group := func(seq rollout.GroupSeq) *workload.RecordedGroup {
		seq -= c.firstSeq
		if groups[seq] == nil {
			groups[seq] = &workload.RecordedGroup{Seq: seq}
		}
		return groups[seq]
	}
	fromEvents, failed := 0, 0
	for _, e := range c.record.Events {
		if body, ok := e.Body.(telemetry.EpisodeFinished); ok && body.Usage.Requests > 0 && body.Phases > 0 {
			g := group(body.Ref.Seq)
			g.Games = append(g.Games, gameOf(body))
			fromEvents++
		}
		if body, ok := e.Body.(telemetry.GroupReady); ok {
			describe(group(body.Group.Seq), body.Group)
		}
		if body, ok := e.Body.(telemetry.EpisodeFailed); ok && body.Final {
			failed++
		}
	}
	fromSteps := 0
	for _, s := range c.steps {
		for _, v := range s.Service.Groups {
			g := group(v.Seq)
			describe(g, v)
			if len(g.Games) == 0 {
				g.Games = divided(v)
				fromSteps += len(g.Games)
			}
		}
	}
	recorded := &workload.Recorded{Seed: uint64(c.record.Run.Spec.Seed), Spread: assumedSpread}
	for _, seq := range slices.Sorted(maps.Keys(groups)) {
		if g := groups[seq]; len(g.Games) > 0 && seq >= 0 {
			recorded.Groups = append(recorded.Groups, *g)
		}
	}
	if len(recorded.Groups) == 0 {
		return fmt.Errorf("%w: it has no game with its turns and tokens; record the run while its step records still "+
			"have their groups", ErrUndetermined)
	}
	recorded.Growth = promptGrowth(recorded.Groups)
	c.setup.Workload = sim.Workload{Recorded: &sim.RecordedGames{Games: recorded}}
	how := fmt.Sprintf("%d games, from the events of their ends", fromEvents)
	if fromSteps > 0 {
		how += fmt.Sprintf(", and %d from their groups' sums", fromSteps)
	}
	c.say("workload.recorded", fmt.Sprintf("%d groups", len(recorded.Groups)), Measured, how)
	if recorded.Growth > 0 {
		c.say("prompt growth", fmt.Sprintf("%.1f tokens per phase", recorded.Growth), Measured,
			"longer games have longer prompts")
	}
	if n := fromEvents + fromSteps; failed*50 > n {
		c.warn("%d games of %d failed for good; the simulation has no failures", failed, n+failed)
	}
	return nil
}

func gameOf(e telemetry.EpisodeFinished) workload.RecordedGame {
	u := e.Usage
	return workload.RecordedGame{
		Phases: e.Phases, Requests: u.Requests, Prompt: u.InputTokens, Output: u.OutputTokens, Cached: u.CachedTokens,
		Env: seconds(e.EnvSec), Slowest: slowest(e.ModelSec, e.Phases, u),
	}
}

// slowest is how many times as long as the mean request the slowest request of a phase took. 0: not known, because
// requests were queued, and the slowest is the one that waited longest.
func slowest(modelSec float64, phases int, u rollout.Usage) float64 {
	if phases == 0 || !hardlyQueued(u) || u.ExecSec <= 0 {
		return 0
	}
	return modelSec / float64(phases) / (u.ExecSec / float64(u.Requests))
}

func describe(g *workload.RecordedGroup, v steprecord.GroupView) {
	g.Base = v.MinVersion == 0
	g.ZeroVariance = v.ZeroVariance
}

// divided is a group's games where only the group's sums are known: in proportion to their lengths.
func divided(v steprecord.GroupView) []workload.RecordedGame {
	all := stat.Sum(slices.Values(v.Phases))
	if all == 0 || v.Usage.Requests == 0 {
		return nil
	}
	var games []workload.RecordedGame
	upTo, before := 0, workload.RecordedGame{}
	part := func(total int64) int64 { return total * int64(upTo) / int64(all) }
	for i, n := range v.Phases {
		upTo += n
		now := workload.RecordedGame{
			Requests: part(v.Usage.Requests), Prompt: part(v.Usage.InputTokens),
			Output: part(v.Usage.OutputTokens), Cached: part(v.Usage.CachedTokens),
		}
		game := workload.RecordedGame{
			Phases: n, Requests: now.Requests - before.Requests, Prompt: now.Prompt - before.Prompt,
			Output: now.Output - before.Output, Cached: now.Cached - before.Cached,
		}
		if i < len(v.EnvSec) {
			game.Env = seconds(v.EnvSec[i])
		}
		if i < len(v.ModelSec) {
			game.Slowest = slowest(v.ModelSec[i], n, v.Usage)
		}
		before = now
		if n > 0 && game.Requests > 0 {
			games = append(games, game)
		}
	}
	return games
}

// promptGrowth is how many tokens prompts grow by from phase to phase, as far as games of different lengths tell: a
// regression of games' mean prompts on the means of their phases' numbers. 0: they do not grow, or it does not show.
func promptGrowth(groups []workload.RecordedGroup) float64 {
	var x, y []float64
	for _, g := range groups {
		for _, game := range g.Games {
			x, y = append(x, float64(game.Phases-1)/2), append(y, float64(game.Prompt)/float64(game.Requests))
		}
	}
	const fewest, certain = 10, 3 // games, and standard errors
	if len(x) < fewest || slices.Max(x)-slices.Min(x) < 1e-4 {
		return 0
	}
	slope, deviation := stat.Slope(x, y)
	if slope <= 0 || slope < certain*deviation {
		return 0
	}
	// The first phase's prompt has some tokens, too.
	return min(slope, stat.Mean(y, 0.95).Mean/max(stat.Mean(x, 0.95).Mean, 1))
}

func seconds(sec float64) time.Duration { return time.Duration(math.Round(sec * float64(time.Second))) }
