package demotrainer

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/simulate/enginesim/constraint"
	"github.com/millrace/millrace/internal/simulate/enginesim/pseudolm"
	"github.com/millrace/millrace/internal/simulate/enginesim/tokenizer"
)

// DefaultLearningRate has tic-tac-toe against the random opponent learned in twenty steps of 64 games.
const DefaultLearningRate = 0.2

// maxRatio truncates the importance weights of what earlier versions have sampled.
const maxRatio = 2

// maxRatioError is more than comes of rounding.
const maxRatioError = 1e-3

// Learner trains the softmax policy that simulated engines serve: each step is one step of REINFORCE along the batch's
// advantages.
type Learner struct {
	rate        float64
	sampling    rollout.Sampling
	model       *pseudolm.Model
	constraints *constraint.Compiler
	policy      *pseudolm.Policy
}

// NewLearner begins with an untrained policy.
func NewLearner(rate float64, sampling rollout.Sampling) *Learner {
	const remembered = 1024 // more than tic-tac-toe has sets of free squares
	tokens := tokenizer.New()
	return &Learner{rate: rate, sampling: sampling, model: pseudolm.New(tokens), policy: new(pseudolm.Policy),
		constraints: constraint.NewCompiler(tokens, remembered)}
}

// Policy is the newest one; it does not change any more.
func (l *Learner) Policy() *pseudolm.Policy { return l.policy }

// Learn takes a step on a batch as the API answers it.
func (l *Learner) Learn(body io.Reader) error {
	b, err := readBatch(body)
	if err == nil {
		_, err = l.learn(b)
	}
	return err
}

// resumeLearner goes on with the weights that came of the steps before this one, in the adapter of that number.
func resumeLearner(rate float64, s runspec.Spec, dir string, step int64) (*Learner, error) {
	l := NewLearner(rate, s.Sampling)
	if step == 0 {
		return l, nil
	}
	pattern := filepath.Join(dir, fmt.Sprintf("%s-v%d-*", s.Name, step), weightsFile)
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		return nil, fmt.Errorf("the weights to go on from: %d files are %s, want 1", len(found), pattern)
	}
	file, err := os.ReadFile(found[0])
	if err == nil {
		l.policy, err = pseudolm.ReadPolicy(file)
	}
	return l, err
}

// tensors is the policy as an adapter has it.
func (l *Learner) tensors() []tensor {
	return []tensor{{name: pseudolm.PolicyTensor, shape: []int{len(l.policy)}, values: l.policy[:]}}
}

// replayed is a turn with its decisions under the policy as it is.
type replayed struct {
	*turn
	advantage float64
	decisions []pseudolm.Decision
}

// learn takes a step. It reports by how much the ratio of its own probability to the engine's is off 1, for tokens of
// the newest version.
func (l *Learner) learn(b *batch) (ratioError float64, err error) {
	turns, err := l.replay(b)
	if err != nil {
		return 0, err
	}
	shares := featureShares(turns)
	var gradient [len(pseudolm.Policy{})]float64
	for _, t := range turns {
		for i, d := range t.decisions {
			ratio := math.Exp(math.Log(d.Probs[d.Picked]) - float64(t.Logprobs[i]))
			if t.PolicyVersion == b.TrainerVersion {
				ratioError = max(ratioError, math.Abs(ratio-1))
			}
			if t.LossMask[i] == 0 || len(d.IDs) == 1 {
				continue
			}
			gain := t.advantage * min(ratio, maxRatio) / float64(len(turns))
			for j, id := range d.IDs {
				slope := -gain * d.Probs[j]
				if j == d.Picked {
					slope += gain
				}
				for _, f := range d.Features {
					gradient[pseudolm.Weight(f, d.After, id)] += slope * (1 - shares[f])
				}
			}
		}
	}
	if ratioError > maxRatioError {
		return ratioError, fmt.Errorf("engines report other probabilities than the newest policy has, by a factor of up to "+
			"%.2f: do they serve policies (millrace engine simulate --policy)?", 1+ratioError)
	}
	next := *l.policy
	for i, g := range gradient {
		next[i] += float32(l.rate * g)
	}
	l.policy = &next
	return ratioError, nil
}

// replay finds the decisions of a batch's turns.
func (l *Learner) replay(b *batch) ([]replayed, error) {
	p := pseudolm.DefaultParams()
	p.Temperature, p.TopP, p.TopK = l.sampling.Temperature, l.sampling.TopP, max(l.sampling.TopK, 0)
	var turns []replayed
	for _, g := range b.Groups {
		for _, trajectory := range g.Trajectories {
			for i := range trajectory.Turns {
				t := &trajectory.Turns[i]
				p.Constraint = nil
				if t.ConstraintIndex != nil {
					var err error
					if p.Constraint, err = l.constraints.Of(g.Constraints[*t.ConstraintIndex]); err != nil {
						return nil, fmt.Errorf("constraint of trajectory %s: %w", trajectory.ID, err)
					}
				}
				decisions, err := l.model.Replay(l.policy, t.PromptTokenIDs, t.TokenIDs, p)
				if err != nil {
					return nil, fmt.Errorf("turn %d of trajectory %s: %w", i, trajectory.ID, err)
				}
				turns = append(turns, replayed{t, trajectory.Advantage, decisions})
			}
		}
	}
	return turns, nil
}

// featureShares is in which share of the prompts each feature is. What all prompts have in common tells nothing about
// the answer, and would drown the rest: the less often a feature is there, the larger are its steps.
func featureShares(turns []replayed) map[uint64]float64 {
	shares := map[uint64]float64{}
	for _, t := range turns {
		for _, f := range t.decisions[0].Features {
			shares[f] += 1 / float64(len(turns))
		}
	}
	return shares
}
