package runkeeper

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/internal/store/redistest"
)

// evaluated hears what a keeper asks of an evaluation's workflow.
type evaluated struct {
	control
	steps []any // that the run was told to have
	heard int
}

func (e *evaluated) Change(_ context.Context, _ rollout.RunName, c spec.Change) (runstatus.RunStatus, error) {
	e.steps = append(e.steps, c.Set["steps"])
	return runstatus.RunStatus{}, nil
}

func (e *evaluated) BufferChanged(context.Context, rollout.RunName, runstatus.Mark) error {
	e.heard++
	return nil
}

// TestEvaluationsAreCompleted has the games of an evaluation come in: each is in one completed step, though a keeper
// dies after a claim, and the run ends when its mean reward is known closely enough, and not when no rewards differ.
func TestEvaluationsAreCompleted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		half    float64
		rewards []float64 // in turn
		steps   []any
		done    rollout.Step
		life    int // of the evaluation's name
	}{
		{"all games are wanted", 0, []float64{0, 1}, nil, 4, 1},
		{"asked again after its deletion", 0, []float64{0, 1}, nil, 4, 2},
		{"known closely at the second look", 0.25, []float64{0.25, 0.75}, []any{2}, 2, 1},
		{"never known so closely", 0.01, []float64{0, 1}, nil, 4, 1},
		{"no rewards differ", 0.25, []float64{1}, nil, 4, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store := buffer.New(redistest.Real(t), buffer.Options{})
			const each = 20
			s := runspec.Spec{Name: "demo-eval-v2-dumb", Model: "m", Steps: 4,
				Environment: runspec.Environment{Kind: "tictactoe"}, Group: runspec.GroupSpec{Samples: 1, MinSamples: 1},
				Buffer: runspec.BufferSpec{Depth: 1, GroupsPerStep: each, OnStale: runspec.KeepStale,
					Prefill: runspec.PrefillBatch},
				Evaluation: runspec.Evaluation{Run: "demo", Version: 2, HalfWidth: tt.half}}
			ok := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			for life := 1; life < tt.life; life++ {
				ok(store.Open(t.Context(), s))
				ok(store.Delete(t.Context(), s.Name))
				id, err := store.ID(t.Context(), s.Name)
				ok(err)
				s.Name = id
			}
			ok(store.Open(t.Context(), s))
			workflow := &evaluated{}
			k := &Keeper{Control: workflow, Buffer: store}
			keep := func() {
				t.Helper()
				account, err := store.Account(t.Context(), s.Name)
				ok(err)
				ok(k.completeSteps(t.Context(), runstatus.RunStatus{Spec: s, NextStep: account.NextStep}))
			}
			for seq := range rollout.GroupSeq(4 * each) {
				if len(workflow.steps) > 0 {
					break
				}
				ref := rollout.GroupRef{Run: s.Name, Seq: seq}
				_, err := store.Queue(t.Context(), ref, nil, 0, time.Now())
				ok(err)
				ok(store.Start(t.Context(), ref))
				_, err = store.CommitGroup(t.Context(), &rollout.Group{Ref: ref, Samples: 1,
					Trajectories: []rollout.Trajectory{{
						ID: rollout.EpisodeRef{GroupRef: ref}.TrajectoryID("X"), Agent: "X",
						Reward: tt.rewards[int(seq)%len(tt.rewards)],
						Turns:  []rollout.Turn{{PromptTokenIDs: []int32{1}, TokenIDs: []int32{2}, Logprobs: []float32{-1}}},
					}}})
				ok(err)
				if seq == each-1 { // a keeper dies after its claim
					account, err := store.Account(t.Context(), s.Name)
					ok(err)
					_, err = store.ClaimRaw(t.Context(), s.Name, 0, account.Generation, buffer.Share{})
					ok(err)
				}
				if seq%7 == 6 || seq%each == each-1 {
					keep()
				}
			}
			keep()
			records, err := store.AllSteps(t.Context(), s.Name, 0, 0)
			ok(err)
			var seqs []rollout.GroupSeq
			for _, r := range records {
				for _, g := range r.Service.Groups {
					seqs = append(seqs, g.Seq)
				}
				if !r.Done {
					t.Errorf("step %d is not completed", r.Step)
				}
			}
			slices.Sort(seqs)
			if games := int(tt.done) * each; len(seqs) != games || len(slices.Compact(seqs)) != games {
				t.Errorf("%d games are in completed steps, want %d, each once", len(seqs), games)
			}
			if !slices.Equal(slices.Compact(workflow.steps), tt.steps) || workflow.heard != int(tt.done) {
				t.Errorf("told to have %v steps, want %v; heard of %d", workflow.steps, tt.steps, workflow.heard)
			}
		})
	}
}
