package activities

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/store/buffer"
)

// A group is made of the games that its workflow counts, whatever has finished since, and never of fewer than it needs.
func TestAGroupIsMadeOfItsGames(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		left     []int // games in the buffer
		finished []int // that the workflow counts
		made     []int // games of the group; none: it is refused
	}{
		{"all", []int{0, 1}, []int{0, 1}, []int{0, 1}},
		{"a surplus one finishes as it is committed", []int{0, 1, 2}, []int{2, 0}, []int{0, 2}},
		{"one is lost", []int{0}, []int{0, 1}, nil},
		{"one is lost, and another one is left", []int{0, 2}, []int{0, 1}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store, ref := openStore(t), rollout.GroupRef{Run: "r"}
			for _, sample := range tt.left {
				saveGame(t, store, rollout.EpisodeRef{GroupRef: ref, Sample: sample}, float64(sample))
			}
			a := &Activities{Buffer: store, Groups: hearing{}, Now: time.Now}
			end, err := a.CommitGroup(t.Context(), CommitInput{Finished: tt.finished, GroupPlan: GroupPlan{Ref: ref,
				GroupSpec: runspec.GroupSpec{Samples: 2, Oversample: 1, MinSamples: 2}}})
			if tt.made == nil {
				wantCode(t, err, rollout.CodeGamesLost, true)
				return
			}
			if err != nil || end.Code != "" || !end.Told {
				t.Fatal(end, err)
			}
			batch, err := store.Claim(t.Context(), "r", 0, 0, buffer.Share{})
			if err != nil {
				t.Fatal(err)
			}
			var made []int
			for _, tr := range batch.Groups[0].Trajectories {
				made = append(made, tr.Sample)
			}
			if !slices.Equal(made, tt.made) {
				t.Errorf("made of games %v, want %v", made, tt.made)
			}
		})
	}
}

// hearing is a Temporal in which runs hear of their groups.
type hearing struct{ Groups }

func (hearing) TellEnd(context.Context, rollout.RunName, GroupEnd) error { return nil }

func saveGame(t *testing.T, store *buffer.Store, of rollout.EpisodeRef, reward float64) {
	t.Helper()
	ep := rollout.Episode{Ref: of, Phases: 1, Trajectories: []rollout.Trajectory{{
		ID: of.TrajectoryID("X"), Sample: of.Sample, Agent: "X", Reward: reward,
		Turns: []rollout.Turn{{PromptTokenIDs: []int32{1}, TokenIDs: []int32{2}, Logprobs: []float32{-1}}},
	}}}
	if err := store.SaveEpisode(t.Context(), of, 1, ep, []byte("over")); err != nil {
		t.Fatal(err)
	}
}

// A group whose games all had the same rewards is let go, whether surplus games were cancelled or not.
func TestAGroupWithoutVarianceIsLetGo(t *testing.T) {
	t.Parallel()
	for _, cancelled := range []int{0, 1} {
		store, ref := openStore(t), rollout.GroupRef{Run: "r"}
		for sample := range 2 {
			saveGame(t, store, rollout.EpisodeRef{GroupRef: ref, Sample: sample}, 0.5)
		}
		a := &Activities{Buffer: store, Groups: hearing{}, Now: time.Now}
		end, err := a.CommitGroup(t.Context(), CommitInput{Finished: []int{0, 1}, Cancelled: cancelled,
			GroupPlan: GroupPlan{Ref: ref, GroupSpec: runspec.GroupSpec{Samples: 2, MinSamples: 2, Oversample: cancelled,
				ZeroVariance: runspec.DropZeroVariance}}})
		if err != nil || end.Code != rollout.CodeZeroVariance || !end.ZeroVariance {
			t.Errorf("%d cancelled: %+v, %v", cancelled, end, err)
		}
	}
}
