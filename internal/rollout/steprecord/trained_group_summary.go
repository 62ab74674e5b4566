package steprecord

import (
	"math"

	"github.com/millrace/millrace/internal/rollout"
)

// TrainedOn sums up the trajectories of a group: what dashboards show of a batch without its tokens. A sequence is a
// turn, its prompt and its completion. Those of several groups can be put together.
type TrainedOn struct {
	Trajectories     int          `json:"trajectories"`
	Sequences        int          `json:"sequences"`
	Reward           RewardSpread `json:"reward"`            // of the trajectories
	PromptTokens     TokenSpread  `json:"prompt_tokens"`     // of the sequences
	CompletionTokens TokenSpread  `json:"completion_tokens"` // of the sequences
}

// RewardSpread is how rewards are spread; the deviation is that of these rewards, not of what they are a sample of.
type RewardSpread struct {
	Mean float64 `json:"mean"`
	Std  float64 `json:"std"`
	Min  float64 `json:"min"`
	Max  float64 `json:"max"`
}

// TokenSpread is how token counts are spread.
type TokenSpread struct {
	Sum int64 `json:"sum"`
	Min int64 `json:"min"`
	Max int64 `json:"max"`
}

func trainedOn(trajectories []rollout.Trajectory) TrainedOn {
	of := TrainedOn{Trajectories: len(trajectories)}
	for i := range trajectories {
		of.Reward.add(trajectories[i].Reward, i)
		for j := range trajectories[i].Turns {
			turn := &trajectories[i].Turns[j]
			of.PromptTokens.add(len(turn.PromptTokenIDs), of.Sequences)
			of.CompletionTokens.add(len(turn.TokenIDs), of.Sequences)
			of.Sequences++
		}
	}
	of.Reward.Std = math.Sqrt(of.Reward.Std / max(1, float64(of.Trajectories)))
	return of
}

// add counts one more reward after n others. Until all are counted, Std is the sum of the squared differences from the
// mean: Welford's way, which loses nothing where rewards are large and close to each other.
func (s *RewardSpread) add(reward float64, n int) {
	before := s.Mean
	s.Mean += (reward - s.Mean) / float64(n+1)
	s.Std += (reward - before) * (reward - s.Mean)
	if n == 0 {
		s.Min, s.Max = reward, reward
	}
	s.Min, s.Max = min(s.Min, reward), max(s.Max, reward)
}

// add counts one more number of tokens after n others.
func (s *TokenSpread) add(tokens, n int) {
	count := int64(tokens)
	if n == 0 {
		s.Min = count
	}
	s.Sum, s.Min, s.Max = s.Sum+count, min(s.Min, count), max(s.Max, count)
}
