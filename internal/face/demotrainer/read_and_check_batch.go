package demotrainer

import (
	"encoding/json"
	"fmt"
	"io"
	"math"

	"github.com/millrace/millrace/internal/rollout"
)

// batch is the groups to train on in one step, as far as this trainer reads them.
type batch struct {
	Run            string  `json:"run"`
	Step           int64   `json:"step"`
	TrainerVersion int64   `json:"trainer_version"`
	Groups         []group `json:"groups"`
}

type group struct {
	Ref struct {
		Seq int64 `json:"seq"`
	} `json:"ref"`
	Constraints  []rollout.Constraint `json:"constraints"`
	Trajectories []trajectory         `json:"trajectories"`
}

type trajectory struct {
	ID        string  `json:"trajectory_id"`
	Reward    float64 `json:"reward"`
	Advantage float64 `json:"advantage"`
	Turns     []turn  `json:"turns"`
}

// turn is one sequence to train on: the prompt, and the tokens that were sampled after it.
type turn struct {
	PromptTokenIDs []int32   `json:"prompt_token_ids"`
	TokenIDs       []int32   `json:"token_ids"`
	Logprobs       []float32 `json:"logprobs"`
	LossMask       []int8    `json:"loss_mask"`
	PolicyVersion  int64     `json:"policy_version"`
	// ConstraintIndex is which of the group's constraints the answer was held to; nil: none.
	ConstraintIndex *int `json:"constraint_index"`
}

func readBatch(r io.Reader) (*batch, error) {
	var b batch
	if err := json.NewDecoder(r).Decode(&b); err != nil {
		return nil, fmt.Errorf("read batch: %w", err)
	}
	return &b, nil
}

// summary is a batch in figures.
type summary struct {
	groups, trajectories, turns int
	tokens                      int64 // trained on
	promptTokens                int64
	staleMin, staleMax          int64 // in versions
	rewards                     float64
}

// check refuses a batch that is not the one asked for or that must not be trained on, and sums it up.
func (b *batch) check(run string, step int64) (summary, error) {
	if b.Run != run || b.Step != step {
		return summary{}, fmt.Errorf("batch of step %d of %s came for step %d of %s", b.Step, b.Run, step, run)
	}
	s := summary{groups: len(b.Groups)}
	ids := map[string]bool{}
	for _, g := range b.Groups {
		for i := range g.Trajectories {
			t := &g.Trajectories[i]
			if t.ID == "" || ids[t.ID] {
				return s, fmt.Errorf("trajectory %q of group %d is in the batch twice or has no id", t.ID, g.Ref.Seq)
			}
			ids[t.ID] = true
			if err := s.add(t, b.TrainerVersion); err != nil {
				return s, fmt.Errorf("trajectory %s: %w", t.ID, err)
			}
		}
	}
	if s.turns == 0 {
		return s, fmt.Errorf("the batch holds nothing to train on")
	}
	if math.IsInf(s.rewards, 0) {
		return s, fmt.Errorf("the rewards of the batch add up to %v", s.rewards)
	}
	return s, nil
}

func (s *summary) add(t *trajectory, trainerVersion int64) error {
	s.trajectories++
	s.rewards += t.Reward
	for i := range t.Turns {
		turn := &t.Turns[i]
		n := len(turn.TokenIDs)
		stale := trainerVersion - turn.PolicyVersion
		switch {
		case n == 0 || len(turn.PromptTokenIDs) == 0:
			return fmt.Errorf("turn %d has %d prompt tokens and %d sampled ones", i, len(turn.PromptTokenIDs), n)
		case len(turn.Logprobs) != n || len(turn.LossMask) != n:
			return fmt.Errorf("turn %d has %d tokens, %d logprobs and %d of the loss mask", i, n, len(turn.Logprobs),
				len(turn.LossMask))
		case stale < 0:
			return fmt.Errorf("turn %d was sampled by version %d, the newest published is %d", i,
				turn.PolicyVersion, trainerVersion)
		}
		if s.turns == 0 {
			s.staleMin = stale
		}
		s.staleMin, s.staleMax = min(s.staleMin, stale), max(s.staleMax, stale)
		s.turns++
		s.tokens += int64(n)
		s.promptTokens += int64(len(turn.PromptTokenIDs))
	}
	return nil
}

// metrics is what goes into the step's record.
func (s summary) metrics() map[string]float64 {
	return map[string]float64{
		"groups": float64(s.groups), "trajectories": float64(s.trajectories), "sequences": float64(s.turns),
		"tokens": float64(s.tokens), "prompt_tokens": float64(s.promptTokens),
		"reward_mean":   s.rewards / float64(s.trajectories),
		"staleness_min": float64(s.staleMin), "staleness_max": float64(s.staleMax),
	}
}

// String is one line for people.
func (s summary) String() string {
	return fmt.Sprintf("%d groups, %d trajectories, %d sequences, %d tokens, staleness %d..%d",
		s.groups, s.trajectories, s.turns, s.tokens, s.staleMin, s.staleMax)
}
