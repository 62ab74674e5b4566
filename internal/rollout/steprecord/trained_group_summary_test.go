package steprecord_test

import (
	"math"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// turn is one of so many prompt and completion tokens.
func turn(prompt, completion int) rollout.Turn {
	return rollout.Turn{PromptTokenIDs: make([]int32, prompt), TokenIDs: make([]int32, completion)}
}

func TestViewSumsUpWhatIsTrainedOn(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		trajectories []rollout.Trajectory
		want         steprecord.TrainedOn
	}{
		{"no trajectory", nil, steprecord.TrainedOn{}},
		{"an agent that never had a turn", []rollout.Trajectory{{Reward: -1}}, steprecord.TrainedOn{
			Trajectories: 1, Reward: steprecord.RewardSpread{Mean: -1, Min: -1, Max: -1},
		}},
		{"two agents", []rollout.Trajectory{
			{Reward: 1, Turns: []rollout.Turn{turn(10, 3), turn(20, 1)}},
			{Reward: 5, Turns: []rollout.Turn{turn(7, 9)}},
		}, steprecord.TrainedOn{
			Trajectories: 2, Sequences: 3, Reward: steprecord.RewardSpread{Mean: 3, Std: 2, Min: 1, Max: 5},
			PromptTokens:     steprecord.TokenSpread{Sum: 37, Min: 7, Max: 20},
			CompletionTokens: steprecord.TokenSpread{Sum: 13, Min: 1, Max: 9},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := steprecord.ViewOf(&rollout.Group{Trajectories: tt.trajectories}).Trained
			if !near(got.Reward, tt.want.Reward) {
				t.Errorf("rewards %+v, want %+v", got.Reward, tt.want.Reward)
			}
			got.Reward, tt.want.Reward = steprecord.RewardSpread{}, steprecord.RewardSpread{}
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// The deviation of rewards that are large beside their differences is not lost.
func TestSpreadOfLargeRewards(t *testing.T) {
	t.Parallel()
	var trajectories []rollout.Trajectory
	for _, r := range []float64{1e9, 1e9 + 2} {
		trajectories = append(trajectories, rollout.Trajectory{Reward: r})
	}
	got := steprecord.ViewOf(&rollout.Group{Trajectories: trajectories}).Trained.Reward
	if want := (steprecord.RewardSpread{Mean: 1e9 + 1, Std: 1, Min: 1e9, Max: 1e9 + 2}); !near(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func near(a, b steprecord.RewardSpread) bool {
	pairs := [][2]float64{{a.Mean, b.Mean}, {a.Std, b.Std}, {a.Min, b.Min}, {a.Max, b.Max}}
	return !slices.ContainsFunc(pairs, func(p [2]float64) bool { return math.Abs(p[0]-p[1]) > 1e-6*(1+math.Abs(p[1])) })
}
