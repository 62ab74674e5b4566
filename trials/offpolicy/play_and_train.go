package main

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"

	"github.com/millrace/millrace/internal/face/demotrainer"
	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/game/tictactoe"
	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/simulate/enginesim/constraint"
	"github.com/millrace/millrace/internal/simulate/enginesim/pseudolm"
	"github.com/millrace/millrace/internal/simulate/enginesim/tokenizer"
)

// player plays games by any version of a policy, and trains the next one.
type player struct {
	env         *tictactoe.Env
	weights     bool // of importance
	samples     int
	words       *tokenizer.Tokenizer
	model       *pseudolm.Model
	constraints *constraint.Compiler
	learner     *demotrainer.Learner
	versions    []*pseudolm.Policy
	rng         *rand.Rand
}

func newPlayer(s runspec.Spec, weights bool, seed uint64) (*player, error) {
	env, err := tictactoe.FromOptions(s.Environment.Options)
	words := tokenizer.New()
	p := &player{env: env, weights: weights, samples: s.Group.Samples, words: words, model: pseudolm.New(words),
		constraints: constraint.NewCompiler(words, 1024), rng: rand.New(rand.NewPCG(seed, 0)),
		learner: demotrainer.NewLearner(demotrainer.DefaultLearningRate, s.Sampling)}
	p.versions = []*pseudolm.Policy{p.learner.Policy()}
	return p, err
}

// The part of a batch, as the API answers it, that the trainer reads.
type (
	batch struct {
		TrainerVersion int     `json:"trainer_version"`
		Groups         []group `json:"groups"`
	}
	group struct {
		Constraints  []rollout.Constraint `json:"constraints"`
		Trajectories []trajectory         `json:"trajectories"`
	}
	trajectory struct {
		Reward    float64 `json:"reward"`
		Advantage float64 `json:"advantage"`
		Turns     []turn  `json:"turns"`
	}
	turn struct {
		Prompt     []int32   `json:"prompt_token_ids"`
		Tokens     []int32   `json:"token_ids"`
		Logprobs   []float64 `json:"logprobs"`
		Mask       []int     `json:"loss_mask"`
		Version    int       `json:"policy_version"`
		Constraint int       `json:"constraint_index"`
	}
)

// train takes a step on a batch of one group of games by each of these versions.
func (p *player) train(versions []int) error {
	b := batch{TrainerVersion: len(p.versions) - 1}
	for _, version := range versions {
		g, err := p.play(version)
		if err != nil {
			return err
		}
		b.Groups = append(b.Groups, g)
	}
	body, err := json.Marshal(b)
	if err == nil {
		err = p.learner.Learn(bytes.NewReader(body))
	}
	p.versions = append(p.versions, p.learner.Policy())
	return err
}

// reward is the newest policy's, of as many games as a batch of eight groups has.
func (p *player) reward() (float64, error) {
	sum := 0.0
	for range 8 {
		g, err := p.play(len(p.versions) - 1)
		if err != nil {
			return 0, err
		}
		for _, played := range g.Trajectories {
			sum += played.Reward / float64(8*p.samples)
		}
	}
	return sum, nil
}

// play is the games of a group, compared as the service compares them.
func (p *player) play(version int) (group, error) {
	var g group
	var rewards []float64
	seed := p.rng.Int64()
	for sample := range p.samples {
		game, err := p.env.Start([]byte(`{}`), seed, sample)
		if err != nil {
			return g, err
		}
		var played trajectory
		for !game.Done() {
			made, err := p.move(&g, game, version)
			if err != nil {
				return g, err
			}
			played.Turns = append(played.Turns, made)
		}
		result, err := game.Result()
		if err != nil {
			return g, err
		}
		played.Reward = result.Rewards["X"]
		rewards, g.Trajectories = append(rewards, played.Reward), append(g.Trajectories, played)
	}
	if mean, squares := stat.Moments(rewards); squares > 0 {
		for i := range g.Trajectories {
			g.Trajectories[i].Advantage = (rewards[i] - mean) / math.Sqrt(squares/float64(len(rewards)))
		}
	}
	return g, nil
}

func (p *player) move(g *group, game episode.Game, version int) (turn, error) {
	prompts, err := game.Prompts()
	if err != nil {
		return turn{}, err
	}
	how := pseudolm.DefaultParams()
	how.Seed = p.rng.Uint64()
	if how.Constraint, err = p.constraints.Of(prompts[0].Constraint); err != nil {
		return turn{}, err
	}
	prompt := p.words.Encode(prompts[0].Text)
	c, err := p.model.Complete(pseudolm.Weights{Policy: p.versions[version]}, prompt, how)
	if err != nil {
		return turn{}, err
	}
	made := turn{Prompt: prompt, Tokens: c.Tokens, Logprobs: c.Logprobs, Version: version, Constraint: len(g.Constraints)}
	for range c.Tokens {
		made.Mask = append(made.Mask, 1)
	}
	g.Constraints = append(g.Constraints, prompts[0].Constraint)
	if !p.weights {
		if made.Logprobs, err = p.now(prompt, c.Tokens, how); err != nil {
			return made, err
		}
	}
	_, err = game.Act(map[string]string{prompts[0].Agent: c.Text})
	return made, err
}

// now is the log-probabilities of an answer under the newest version: a trainer that is told them instead of those of
// the version that sampled it weighs all alike.
func (p *player) now(prompt, answer []tokenizer.ID, how pseudolm.Params) ([]float64, error) {
	decisions, err := p.model.Replay(p.versions[len(p.versions)-1], prompt, answer, how)
	var logprobs []float64
	for _, d := range decisions {
		logprobs = append(logprobs, math.Log(d.Probs[d.Picked]))
	}
	return logprobs, err
}
