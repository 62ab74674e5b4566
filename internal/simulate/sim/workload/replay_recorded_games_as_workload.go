package workload

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
)

// RecordedGame is what a record says of one game that was played to its end: sums over its turns.
type RecordedGame struct {
	Phases   int           // rounds of decisions
	Requests int64         // turns
	Prompt   int64         // tokens
	Output   int64         // tokens
	Cached   int64         // of the prompt tokens, found in an engine's prefix cache
	Env      time.Duration // in the environment
	// Slowest is how many times as long as the mean request of the game the slowest request of a phase took, in the mean
	// over phases; 0: not known.
	Slowest float64
	// spread is the standard deviation of the logarithm of an answer's length; 0: the run's Spread.
	spread float64
}

// RecordedGroup is the games of one group, by sample.
type RecordedGroup struct {
	Seq          rollout.GroupSeq
	Base         bool // sampled by the base model, before the first policy version was published
	ZeroVariance bool
	Games        []RecordedGame
}

// Recorded plays the games of a recorded run again. A game that the record has is that game; one beyond it is drawn
// from the recorded ones: a group from those that a policy version sampled, if there are any, with its games, and
// further samples of a group from the games of all of them. Of each game the record knows sums, so its turns are made
// to add up to them: as many agents in each phase as there were in the mean, prompts that grow by Growth, answers whose
// lengths vary by Spread.
type Recorded struct {
	Groups []RecordedGroup // in order of Seq
	// Growth is how many tokens a prompt is longer than that of the phase before.
	Growth float64
	// Spread is the standard deviation of the logarithm of an answer's length within a game, where SpreadAnswers has
	// not found the game's own.
	Spread float64
	Seed   uint64
}

var _ Games = (*Recorded)(nil)

// Streams of one seed.
const (
	recordedGroup uint64 = iota + 101
	recordedSample
	recordedTurns
)

// group is the recorded group whose games those of seq are.
func (g *Recorded) group(seq rollout.GroupSeq) *RecordedGroup {
	i, found := slices.BinarySearchFunc(g.Groups, seq, func(r RecordedGroup, seq rollout.GroupSeq) int {
		return cmp.Compare(r.Seq, seq)
	})
	if found {
		return &g.Groups[i]
	}
	return g.draw(virtualtime.SplitMix(hash(g.Seed, recordedGroup, uint64(seq))))
}

// draw is any group that was sampled by a policy version: a run that has left the base model does not come back to it.
func (g *Recorded) draw(r *virtualtime.Random) *RecordedGroup {
	from := 0 // the base model's groups come first
	for from < len(g.Groups) && g.Groups[from].Base {
		from++
	}
	if from == len(g.Groups) {
		from = 0
	}
	return &g.Groups[from+r.IntN(len(g.Groups)-from)]
}

// ZeroVariance reports whether the rewards of a group's games are all equal.
func (g *Recorded) ZeroVariance(ref rollout.GroupRef) bool { return g.group(ref.Seq).ZeroVariance }

// Game is the recorded game of a reference, or one drawn in its place.
func (g *Recorded) Game(ref rollout.EpisodeRef) Game {
	group := g.group(ref.Seq)
	sample := int(ref.Sample)
	if sample >= len(group.Games) {
		r := virtualtime.SplitMix(hash(g.Seed, recordedSample, uint64(ref.Seq), uint64(ref.Sample)))
		group = g.draw(r) // the group's own few games would make its slowest one too fast
		sample = r.IntN(len(group.Games))
	}
	return g.turns(&group.Games[sample], g.chance(ref.Seq, int(ref.Sample)))
}

// chance is the stream that a game's turns are made with.
func (g *Recorded) chance(seq rollout.GroupSeq, sample int) *virtualtime.Random {
	return virtualtime.SplitMix(hash(g.Seed, recordedTurns, uint64(seq), uint64(sample)))
}

// SpreadAnswers gives each game whose Slowest is known the spread with which the longest answers of its phases are in
// the same proportion to its mean answer. Requests have a part that does not depend on the answer, so that answers
// differ more than times do: by stretch times as much.
func (g *Recorded) SpreadAnswers(stretch float64) {
	for i := range g.Groups {
		group := &g.Groups[i]
		for sample := range group.Games {
			game := &group.Games[sample]
			if game.Slowest <= 0 || game.Requests == 0 {
				continue
			}
			game.spread = spreadFor(1+stretch*(game.Slowest-1), game, g.chance(group.Seq, sample))
		}
	}
}

// spreadFor is the spread with which the longest answers of a game's phases are so many times the mean answer.
func spreadFor(longest float64, game *RecordedGame, r *virtualtime.Random) float64 {
	phases, requests := max(game.Phases, 1), int(game.Requests)
	normals := make([]float64, requests)
	for i := range normals {
		normals[i] = r.Normal()
	}
	ratio := func(spread float64) float64 {
		sum, most := 0.0, 0.0
		for i, from := 0, 0; i < phases; i++ {
			to := requests * (i + 1) / phases
			top := 0.0
			for _, z := range normals[from:to] {
				length := math.Exp(spread * z)
				sum, top = sum+length, max(top, length)
			}
			most += top
			from = to
		}
		return most / float64(phases) / (sum / float64(requests))
	}
	const widest, halvings = 2.0, 20
	from, to := 0.0, widest
	for range halvings {
		if middle := (from + to) / 2; ratio(middle) < longest {
			from = middle
		} else {
			to = middle
		}
	}
	return (from + to) / 2
}

// turns makes a game whose turns add up to the recorded sums.
func (g *Recorded) turns(of *RecordedGame, r *virtualtime.Random) Game {
	phases := max(of.Phases, 1)
	requests := int(max(of.Requests, 0))
	turns := make([]Turn, requests)
	game := Game{Phases: make([]Phase, phases)}
	prompts, outputs := make([]float64, requests), make([]float64, requests)
	mean := float64(of.Prompt) / float64(max(requests, 1))
	spread := cmp.Or(of.spread, g.Spread)
	for i, from := 0, 0; i < phases; i++ {
		to := requests * (i + 1) / phases
		for k := from; k < to; k++ {
			turns[k].Agent = k - from
			prompts[k] = max(mean+g.Growth*(float64(i)-float64(phases-1)/2), 1)
			outputs[k] = math.Exp(spread * r.Normal())
		}
		game.Agents = max(game.Agents, to-from)
		game.Phases[i] = Phase{Turns: turns[from:to:to], Env: of.Env / time.Duration(phases)}
		from = to
	}
	const block = 16 // tokens, the granularity of vLLM's prefix cache
	prompt := apportion(of.Prompt, prompts, 1)
	output := apportion(of.Output, outputs, 1)
	cached := apportion(of.Cached/block, prompts, 0)
	for k := range turns {
		turns[k].Prompt, turns[k].Output = int(prompt[k]), int(output[k])
		// What is found in the cache is found whoever asked before: the record does not say of whom it was.
		if shared := min(int(cached[k])*block, turns[k].Prompt-1); shared > 0 {
			turns[k].Shared = []Prefix{{Key: 1, Tokens: shared}}
		}
	}
	return game
}

// apportion divides a total into whole parts in proportion to weights, each at least least, so that they add up to it
// as nearly as that allows.
func apportion(total int64, weights []float64, least int64) []int64 {
	parts := make([]int64, len(weights))
	sum := stat.Sum(slices.Values(weights))
	if sum <= 0 {
		return parts
	}
	share, given := 0.0, int64(0)
	for i, w := range weights {
		share += w
		upTo := int64(math.Round(float64(total) * share / sum))
		parts[i] = max(upTo-given, least)
		given += parts[i]
	}
	return parts
}
