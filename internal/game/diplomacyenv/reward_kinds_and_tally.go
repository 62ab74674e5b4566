package diplomacyenv

import (
	"fmt"

	"github.com/millrace/millrace/internal/game/diplomacy"
)

// RewardKind names a way of scoring a power.
type RewardKind string

// The reward kinds, for a power with c of the map's C centres at the end of the game.
const (
	// CenterShare is c / C: 34 centres on the standard map.
	CenterShare RewardKind = "center_share"
	// SumOfSquares is c^2 / the sum of all powers' c^2, as dipcc and webDiplomacy score.
	SumOfSquares RewardKind = "sum_of_squares"
	// DrawSize is 1 / n for each of the n powers that have a centre left, and 0 for the others: webDiplomacy's
	// draw-size scoring.
	DrawSize RewardKind = "draw_size"
	// StepFinal mixes a score of every phase with one of the end: see StepFinalConfig.
	StepFinal RewardKind = "step_final"
)

// RewardConfig says what a learner earns. Group-normalised advantages per power are made of the rewards of
// trajectories by rollout.Normalise.
type RewardConfig struct {
	Kind RewardKind `json:"kind"`
	// SoloTakesAll gives 1 to the winner of a solo and 0 to the others, as every scoring system above does. It does
	// not apply to step_final, which has a bonus of its own.
	SoloTakesAll bool `json:"solo_takes_all"`
	// PerTurn also rewards single turns. The turn of a score kind earns the change of the score since the power's turn
	// before, or since the fork; that of step_final the weighted score of the phase.
	PerTurn   bool            `json:"per_turn"`
	StepFinal StepFinalConfig `json:"step_final"`
}

func defaultReward() RewardConfig {
	return RewardConfig{Kind: CenterShare, SoloTakesAll: true, StepFinal: defaultStepFinal()}
}

func (c RewardConfig) faults() []error {
	switch c.Kind {
	case CenterShare, SumOfSquares, DrawSize:
		return nil
	case StepFinal:
		return c.StepFinal.faults()
	}
	return []error{fmt.Errorf("reward.kind: %q is none of %s, %s, %s, %s", string(c.Kind), CenterShare, SumOfSquares,
		DrawSize, StepFinal)}
}

// score is what the position is worth to power p by a kind that looks at centres only.
func (c RewardConfig) score(s *diplomacy.State, p diplomacy.Power) float64 {
	if winner := s.Winner(); winner != diplomacy.NoPower && c.SoloTakesAll {
		if winner == p {
			return 1
		}
		return 0
	}
	own := float64(s.CenterCount(p))
	switch c.Kind {
	case SumOfSquares:
		return own * own / sumOverPowers(s, func(n float64) float64 { return n * n })
	case DrawSize:
		if own == 0 {
			return 0
		}
		return 1 / sumOverPowers(s, func(n float64) float64 { return min(n, 1) })
	default:
		centers := s.Map().Centers()
		return own / float64(centers.Len())
	}
}

// sumOverPowers adds up f of each power's centres; it is never 0, so that it can be divided by.
func sumOverPowers(s *diplomacy.State, f func(centers float64) float64) float64 {
	sum := 0.0
	for p := range s.Map().Powers() {
		sum += f(float64(s.CenterCount(diplomacy.Power(p))))
	}
	if sum == 0 {
		return 1
	}
	return sum
}

// rewardTally keeps the rewards of one game from the fork on.
type rewardTally struct {
	cfg    RewardConfig
	phases int
	steps  []float64 // sum of step scores, by power
	step   []float64 // step score of the last phase, by power
	last   []float64 // score at the last turn, by power
}

func newRewardTally(cfg RewardConfig, fork *diplomacy.State) *rewardTally {
	n := len(fork.Map().Powers())
	l := &rewardTally{cfg: cfg, steps: make([]float64, n), step: make([]float64, n), last: make([]float64, n)}
	if cfg.Kind != StepFinal {
		for p := range l.last {
			l.last[p] = cfg.score(fork, diplomacy.Power(p))
		}
	}
	return l
}

// observe counts one phase.
func (l *rewardTally) observe(before *diplomacy.State, out *diplomacy.Outcome) {
	l.phases++
	if l.cfg.Kind != StepFinal {
		return
	}
	for p := range l.step {
		l.step[p] = l.cfg.StepFinal.phaseScore(before, out, diplomacy.Power(p))
		l.steps[p] += l.step[p]
	}
}

// turn is the reward of the turn that power p has just made.
func (l *rewardTally) turn(after *diplomacy.State, p diplomacy.Power) float64 {
	if l.cfg.Kind == StepFinal {
		return l.cfg.StepFinal.StepWeight * l.step[p]
	}
	score := l.cfg.score(after, p)
	change := score - l.last[p]
	l.last[p] = score
	return change
}

// total is the reward of the whole trajectory of power p.
func (l *rewardTally) total(end *diplomacy.State, p diplomacy.Power) float64 {
	if l.cfg.Kind != StepFinal {
		return l.cfg.score(end, p)
	}
	mean := 0.0
	if l.phases > 0 {
		mean = l.steps[p] / float64(l.phases)
	}
	return l.cfg.StepFinal.mix(mean, end, p)
}
