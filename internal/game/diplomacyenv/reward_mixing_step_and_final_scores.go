package diplomacyenv

import (
	"fmt"

	"github.com/millrace/millrace/internal/game/diplomacy"
)

// StepFinalConfig has the weights of the reward step_final. With the defaults, for a power that has c centres and u
// units of which o stand outside its home centres, the reward of a trajectory is
//
//	step_weight * mean of S over the phases since the fork  +  final_weight * F  -  penalty
//
//	S = 2.0 c + 0.3 u + 0.1 o - 0.3 (own centres that a foreign unit could move to)
//	    + 0.5 (foreign units it dislodged) - 0.5 (own units dislodged) + 0.2 (provinces it entered that were not its
//	    own last), the events being those of the phase
//	F = 2.0 c + 0.2 u + 0.1 o + 0.5 + rank bonus, or -30 for a power with neither centre nor unit
//	rank bonus = 50, 25, 15, 10, 5, 2, 0 by rank in centres, ties sharing the better rank; plus solo_bonus for a solo
//	penalty = leader_gap_weight * max(0, centres of the leader - c - leader_gap_free) / leader_gap_scale
//
// The weights are those of the project diplomacy-v2, which trains language models with them.
type StepFinalConfig struct {
	StepWeight  float64 `json:"step_weight"`
	FinalWeight float64 `json:"final_weight"`

	StepCenter    float64 `json:"step_center"`
	StepUnit      float64 `json:"step_unit"`
	StepForward   float64 `json:"step_forward"`
	StepThreat    float64 `json:"step_threat"`
	StepDislodged float64 `json:"step_dislodged"`
	StepLost      float64 `json:"step_lost"`
	StepProvince  float64 `json:"step_province"`

	FinalCenter     float64   `json:"final_center"`
	FinalUnit       float64   `json:"final_unit"`
	FinalForward    float64   `json:"final_forward"`
	FinalSurvival   float64   `json:"final_survival"`
	FinalEliminated float64   `json:"final_eliminated"`
	RankBonus       []float64 `json:"rank_bonus"`
	SoloBonus       float64   `json:"solo_bonus"`

	LeaderGapWeight float64 `json:"leader_gap_weight"`
	LeaderGapFree   float64 `json:"leader_gap_free"`
	LeaderGapScale  float64 `json:"leader_gap_scale"`
}

func defaultStepFinal() StepFinalConfig {
	return StepFinalConfig{
		StepWeight: 0.8, FinalWeight: 0.2,
		StepCenter: 2, StepUnit: 0.3, StepForward: 0.1, StepThreat: -0.3,
		StepDislodged: 0.5, StepLost: -0.5, StepProvince: 0.2,
		FinalCenter: 2, FinalUnit: 0.2, FinalForward: 0.1, FinalSurvival: 0.5, FinalEliminated: -30,
		RankBonus:       []float64{50, 25, 15, 10, 5, 2, 0},
		LeaderGapWeight: 1, LeaderGapFree: 3, LeaderGapScale: 18,
	}
}

func (c StepFinalConfig) faults() []error {
	var errs []error
	if c.StepWeight < 0 || c.FinalWeight < 0 || c.StepWeight+c.FinalWeight == 0 {
		errs = append(errs, fmt.Errorf("reward.step_final: step_weight %g and final_weight %g: want none negative and one "+
			"positive", c.StepWeight, c.FinalWeight))
	}
	if c.LeaderGapScale <= 0 {
		errs = append(errs, fmt.Errorf("reward.step_final.leader_gap_scale: %g is not positive", c.LeaderGapScale))
	}
	return errs
}

func (c *StepFinalConfig) phaseScore(before *diplomacy.State, out *diplomacy.Outcome, p diplomacy.Power) float64 {
	after := &out.Next
	units, forward := countUnits(after, p)
	score := c.StepCenter*float64(after.CenterCount(p)) + c.StepUnit*float64(units) + c.StepForward*float64(forward)
	score += c.StepThreat * float64(threatened(after, p))
	won, lost := dislodgements(out, p)
	score += c.StepDislodged*float64(won) + c.StepLost*float64(lost)
	return score + c.StepProvince*float64(entered(before, after, p))
}

// mix is the reward of a trajectory from the mean of its step scores and the end of the game.
func (c *StepFinalConfig) mix(meanStep float64, end *diplomacy.State, p diplomacy.Power) float64 {
	leader := 0
	for q := range end.Map().Powers() {
		leader = max(leader, end.CenterCount(diplomacy.Power(q)))
	}
	gap := max(0, float64(leader-end.CenterCount(p))-c.LeaderGapFree) / c.LeaderGapScale
	return c.StepWeight*meanStep + c.FinalWeight*c.final(end, p) - c.LeaderGapWeight*gap
}

func (c *StepFinalConfig) final(end *diplomacy.State, p diplomacy.Power) float64 {
	if end.Eliminated(p) {
		return c.FinalEliminated
	}
	units, forward := countUnits(end, p)
	score := c.FinalCenter*float64(end.CenterCount(p)) + c.FinalUnit*float64(units) +
		c.FinalForward*float64(forward) + c.FinalSurvival
	if end.Winner() == p {
		score += c.SoloBonus
	}
	rank := 0
	for q := range end.Map().Powers() {
		if end.CenterCount(diplomacy.Power(q)) > end.CenterCount(p) {
			rank++
		}
	}
	if rank < len(c.RankBonus) {
		score += c.RankBonus[rank]
	}
	return score
}

// countUnits counts the units of p that are not dislodged, and those of them outside p's home centres.
func countUnits(s *diplomacy.State, p diplomacy.Power) (units, forward int) {
	homes := s.Map().Homes(p)
	for u := range s.Units(p) {
		units++
		if !homes.Has(s.Map().Province(u.Place)) {
			forward++
		}
	}
	return units, forward
}

// threatened counts the centres of p that a foreign unit could move to.
func threatened(s *diplomacy.State, p diplomacy.Power) int {
	n := 0
	var reach diplomacy.ProvinceSet
	for u := range s.AllUnits() {
		if u.Power == p {
			continue
		}
		for at := range s.Map().Reach(u.Kind, u.Place).All() {
			reach.Add(at)
		}
	}
	for at := range s.Centers(p) {
		if reach.Has(at) {
			n++
		}
	}
	return n
}

// dislodgements counts the foreign units that p dislodged, and its own that were.
func dislodgements(out *diplomacy.Outcome, p diplomacy.Power) (won, lost int) {
	for _, u := range out.Units {
		if u.Result&diplomacy.Dislodge == 0 {
			continue
		}
		if u.Unit.Power == p {
			lost++
			continue
		}
		if by, ok := out.Next.Unit(out.Next.Map().Province(u.Unit.Place)); ok && by.Power == p {
			won++
		}
	}
	return won, lost
}

// entered counts the provinces whose last visitor has become p.
func entered(before, after *diplomacy.State, p diplomacy.Power) int {
	n := 0
	for at := range after.Map().ProvinceCount() {
		if after.LastVisitor(diplomacy.Province(at)) == p && before.LastVisitor(diplomacy.Province(at)) != p {
			n++
		}
	}
	return n
}
