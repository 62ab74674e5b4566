package demotrainer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/game/tictactoe"
	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/simulate/enginesim/pseudolm"
	"github.com/millrace/millrace/internal/simulate/enginesim/tokenizer"
)

// TestLearnsAndControlsDoNot: the reward of games against the random opponent rises well above an untrained policy's
// within fourteen steps, and neither does so at learning rate 0 nor with the advantages of other games.
func TestLearnsAndControlsDoNot(t *testing.T) {
	t.Parallel()
	const steps, last, untrained = 14, 4, 0.66
	for _, arm := range []struct {
		name    string
		rate    float64
		shuffle bool
		fits    func(reward float64) bool
	}{
		{"learner", DefaultLearningRate, false, func(r float64) bool { return r > 0.81 }},
		{"rate 0", 0, false, func(r float64) bool { return math.Abs(r-untrained) < 0.06 }},
		{"shuffled", DefaultLearningRate, true, func(r float64) bool { return r < 0.77 }},
	} {
		t.Run(arm.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(2) {
				l := learnerOf(arm.rate)
				rng := rand.New(rand.NewPCG(seed, 0))
				sum := 0.0
				for step := range int64(steps) {
					b := l.play(t, step, rng)
					if step >= steps-last {
						sum += meanReward(b) / last
					}
					if arm.shuffle {
						shuffleAdvantages(b, rng)
					}
					if off, err := l.learn(b); err != nil || off > 1e-3 {
						t.Fatalf("ratio at version distance 0 off 1 by %g: %v", off, err)
					}
				}
				t.Logf("seed %d: reward %.3f", seed, sum)
				if !arm.fits(sum) {
					t.Errorf("seed %d: reward %.3f", seed, sum)
				}
			}
		})
	}
}

// Engines that do not serve the policy are not trained on.
func TestLearnerRefusesOtherEngines(t *testing.T) {
	t.Parallel()
	l := learnerOf(DefaultLearningRate)
	b := l.play(t, 0, rand.New(rand.NewPCG(1, 1)))
	if _, err := l.learn(b); err != nil {
		t.Fatal(err)
	}
	if _, err := l.learn(b); err == nil || !strings.Contains(err.Error(), "--policy") {
		t.Errorf("it learns from version 0 as if it were version 1: %v", err)
	}
}

// A trainer that is killed goes on with the weights that it has published.
func TestLearnerGoesOnFromItsAdapter(t *testing.T) {
	t.Parallel()
	l, dir := learnerOf(DefaultLearningRate), t.TempDir()
	if _, err := l.learn(l.play(t, 0, rand.New(rand.NewPCG(1, 1)))); err != nil {
		t.Fatal(err)
	}
	if _, err := writeAdapter(dir, "run-v1", adapterConfig("model", 8), l.tensors(), 0); err != nil {
		t.Fatal(err)
	}
	again, err := resumeLearner(DefaultLearningRate, runspec.Spec{Name: "run"}, dir, 1)
	if err != nil || *again.policy != *l.policy || *again.policy == (pseudolm.Policy{}) {
		t.Errorf("other weights, or none: %v", err)
	}
	if _, err := resumeLearner(DefaultLearningRate, runspec.Spec{Name: "run"}, dir, 2); err == nil {
		t.Error("it goes on without the weights of step 2")
	}
}

var words = tokenizer.New()

func learnerOf(rate float64) *Learner {
	return NewLearner(rate, rollout.Sampling{Temperature: 1, TopP: 1})
}

// play is a batch of 8 groups of 8 games against the random opponent, sampled as an engine samples.
func (l *Learner) play(t *testing.T, step int64, rng *rand.Rand) *batch {
	t.Helper()
	env, err := tictactoe.New(tictactoe.Config{Opponent: tictactoe.RandomOpponent})
	if err != nil {
		t.Fatal(err)
	}
	b := &batch{TrainerVersion: step}
	for range 8 {
		var g group
		seed := rng.Int64()
		for sample := range 8 {
			game, err := env.Start([]byte(`{}`), seed, sample)
			if err != nil {
				t.Fatal(err)
			}
			played := trajectory{ID: fmt.Sprint(seed, sample)}
			for !game.Done() {
				played.Turns = append(played.Turns, l.turn(t, &g, game, step, rng.Uint64()))
			}
			result, err := game.Result()
			if err != nil {
				t.Fatal(err)
			}
			played.Reward = result.Rewards["X"]
			g.Trajectories = append(g.Trajectories, played)
		}
		g.compare()
		b.Groups = append(b.Groups, g)
	}
	return b
}

// turn has the policy make a move.
func (l *Learner) turn(t *testing.T, g *group, game episode.Game, step int64, seed uint64) turn {
	t.Helper()
	prompts, err := game.Prompts()
	if err != nil {
		t.Fatal(err)
	}
	p := pseudolm.DefaultParams()
	p.Seed = seed
	if p.Constraint, err = l.constraints.Of(prompts[0].Constraint); err != nil {
		t.Fatal(err)
	}
	prompt := words.Encode(prompts[0].Text)
	c, err := l.model.Complete(pseudolm.Weights{Policy: l.policy}, prompt, p)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := game.Act(map[string]string{prompts[0].Agent: c.Text}); err != nil {
		t.Fatal(err)
	}
	at := len(g.Constraints)
	g.Constraints = append(g.Constraints, prompts[0].Constraint)
	made := turn{PromptTokenIDs: prompt, TokenIDs: c.Tokens, PolicyVersion: step, ConstraintIndex: &at}
	for _, logprob := range c.Logprobs {
		made.Logprobs, made.LossMask = append(made.Logprobs, float32(logprob)), append(made.LossMask, 1)
	}
	return made
}

// compare sets the advantages of a group as the service does.
func (g *group) compare() {
	var rewards []float64
	for _, played := range g.Trajectories {
		rewards = append(rewards, played.Reward)
	}
	mean, squares := stat.Moments(rewards)
	for i := range g.Trajectories {
		if squares > 0 {
			g.Trajectories[i].Advantage = (rewards[i] - mean) / math.Sqrt(squares/float64(len(rewards)))
		}
	}
}

func meanReward(b *batch) float64 {
	var rewards []float64
	for _, g := range b.Groups {
		for _, played := range g.Trajectories {
			rewards = append(rewards, played.Reward)
		}
	}
	mean, _ := stat.Moments(rewards)
	return mean
}

// shuffleAdvantages gives each game of a batch the advantage of another.
func shuffleAdvantages(b *batch, rng *rand.Rand) {
	var all []*float64
	for _, g := range b.Groups {
		for i := range g.Trajectories {
			all = append(all, &g.Trajectories[i].Advantage)
		}
	}
	rng.Shuffle(len(all), func(i, j int) { *all[i], *all[j] = *all[j], *all[i] })
}
