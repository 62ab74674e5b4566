package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/workflows"
)

// slowGames is PlayEpisode whose games end when the test says, which is at a time of the workflow's clock.
type slowGames struct {
	mu     sync.Mutex
	tokens map[rollout.EpisodeRef][]byte
}

// playSlowly makes games wait in place of being played.
func (w *world) playSlowly() *slowGames {
	g := &slowGames{tokens: map[rollout.EpisodeRef][]byte{}}
	play := func(ctx context.Context, in activities.EpisodeInput) (activities.EpisodeResult, error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.tokens[rollout.EpisodeRef{GroupRef: in.Plan.Ref, Sample: in.Sample}] = activity.GetInfo(ctx).TaskToken
		return activities.EpisodeResult{}, activity.ErrResultPending
	}
	w.env.RegisterActivityWithOptions(play,
		activity.RegisterOptions{Name: "PlayEpisode", DisableAlreadyRegisteredCheck: true})
	return g
}

// end ends one game with rewards for X and O.
func (g *slowGames) end(w *world, seq rollout.GroupSeq, sample int, x, o float64) {
	w.t.Helper()
	ref := rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "demo", Seq: seq}, Sample: sample}
	ep := rollout.Episode{Ref: ref, Phases: 5, StartedAt: w.env.Now(), FinishedAt: w.env.Now()}
	for agent, reward := range map[string]float64{"X": x, "O": o} {
		ep.Trajectories = append(ep.Trajectories, rollout.Trajectory{
			ID: fmt.Sprintf("%s/%s", ref, agent), Sample: sample, Agent: agent, Reward: reward,
			Turns: []rollout.Turn{{PromptTokenIDs: []int32{1}, TokenIDs: []int32{2}, Logprobs: []float32{-1}}},
		})
	}
	if err := w.buffer.SaveEpisode(context.Background(), ref, 1, ep, []byte("over")); err != nil {
		w.t.Errorf("save %s: %v", ref, err)
	}
	g.complete(w, ref, activities.EpisodeResult{Phases: 5}, nil)
}

// fail ends one game for good, with a code.
func (g *slowGames) fail(w *world, seq rollout.GroupSeq, sample int, code rollout.Code) {
	w.t.Helper()
	g.complete(w, rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "demo", Seq: seq}, Sample: sample}, nil,
		temporal.NewNonRetryableApplicationError("as the test says", string(code), nil))
}

func (g *slowGames) complete(w *world, ref rollout.EpisodeRef, result any, failure error) {
	w.t.Helper()
	g.mu.Lock()
	token := g.tokens[ref]
	g.mu.Unlock()
	if err := w.env.CompleteActivity(token, result, failure); err != nil {
		w.t.Errorf("end %s: %v", ref, err)
	}
	// The test environment does not wake a child whose activity is completed from outside; any signal does.
	if err := w.env.SignalWorkflowByID(workflows.Deployment("test").GroupID(ref.GroupRef), "wake", nil); err != nil {
		w.t.Errorf("wake the group of %s: %v", ref, err)
	}
}

// samples is which games each ready group is made of, by claiming a step.
func (w *world) samples(step rollout.Step) map[rollout.GroupSeq][]int {
	w.train(step)
	made := map[rollout.GroupSeq][]int{}
	for _, g := range w.groups {
		for _, tr := range g.Trajectories {
			if !slices.Contains(made[g.Ref.Seq], tr.Sample) {
				made[g.Ref.Seq] = append(made[g.Ref.Seq], tr.Sample)
			}
		}
	}
	return made
}

// One group a step, and one step, so that what is seen is one group's.
func oneGroup(w *world, g runspec.GroupSpec) *slowGames {
	w.spec.Steps, w.spec.Buffer.GroupsPerStep, w.spec.Buffer.Depth = 1, 1, 1
	w.spec.Group = g
	return w.playSlowly()
}

func TestSurplusGamesAreCalledOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	games := oneGroup(w, runspec.GroupSpec{Samples: 2, MinSamples: 2, Oversample: 2})
	w.at(time.Minute, func() { games.end(w, 0, 3, 1, 0) })
	w.at(2*time.Minute, func() { games.end(w, 0, 1, 0, 1) })
	w.at(3*time.Minute, func() {
		if made := w.samples(0); !slices.Equal(made[0], []int{1, 3}) {
			t.Errorf("group of games %v, want 1 and 3, which finished first", made[0])
		}
		if g := w.groups[0]; g.Samples != 2 || g.Failed != 0 || !slices.Equal(g.Phases, []int{5, 5}) {
			t.Errorf("%d games, %d failed, of %v phases; called-off games have not failed", g.Samples, g.Failed, g.Phases)
		}
	})
	w.start()
	w.result()
}

func TestStragglersAreCalledOffAfterTheGrace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	games := oneGroup(w, runspec.GroupSpec{Samples: 3, MinSamples: 2, Grace: rollout.Duration(10 * time.Minute)})
	ready := func() int64 {
		counts, err := w.buffer.Counts(context.Background(), "demo")
		if err != nil {
			t.Error(err)
		}
		return counts.Ready
	}
	w.at(1*time.Minute, func() { games.end(w, 0, 0, 1, 0) })
	w.at(30*time.Minute, func() { games.end(w, 0, 2, 0, 1) })
	w.at(39*time.Minute, func() {
		if ready() != 0 {
			t.Error("ready before the straggler has had its grace")
		}
	})
	w.at(41*time.Minute, func() {
		if made := w.samples(0); !slices.Equal(made[0], []int{0, 2}) {
			t.Errorf("group of games %v, want 0 and 2", made[0])
		}
	})
	w.start()
	w.result()
}

// firstCommitFails is a buffer that fails the first time that it is asked to take a group in.
type firstCommitFails struct {
	activities.Buffer
	asked atomic.Int32
}

func (s *firstCommitFails) CommitGroup(ctx context.Context, g *rollout.Group) (buffer.Commit, error) {
	if s.asked.Add(1) == 1 {
		return buffer.Commit{}, errors.New("no answer")
	}
	return s.Buffer.CommitGroup(ctx, g)
}

// What fails within the workflow's task is tried again as an activity: Temporal shows it, and repeats it.
func TestACommitThatFailsIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	games := oneGroup(w, runspec.GroupSpec{Samples: 2, MinSamples: 2})
	stumbles := &firstCommitFails{Buffer: w.acts.Buffer}
	w.acts.Buffer = stumbles
	w.at(time.Minute, func() { games.end(w, 0, 0, 1, 0) })
	w.at(2*time.Minute, func() { games.end(w, 0, 1, 0, 1) })
	w.at(3*time.Minute, func() {
		if made := w.samples(0); !slices.Equal(made[0], []int{0, 1}) || stumbles.asked.Load() != 2 {
			t.Errorf("group of games %v, committed %d times", made[0], stumbles.asked.Load())
		}
	})
	w.start()
	w.result()
}

// A failed game is a typed failure, and no row: a group that has too few games without it is dropped with its code.
func TestAGroupWithTooFewGamesIsDroppedWithACode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	games := oneGroup(w, runspec.GroupSpec{Samples: 2, MinSamples: 2})
	w.at(1*time.Minute, func() { games.end(w, 0, 0, 1, 0) })
	w.at(2*time.Minute, func() { games.fail(w, 0, 1, rollout.CodeEpisodeDeadline) })
	w.at(3*time.Minute, func() {
		account, err := w.buffer.Account(context.Background(), "demo")
		if want := map[rollout.Code]int64{rollout.CodeEpisodeDeadline: 1}; err != nil || !maps.Equal(account.Drops, want) {
			t.Errorf("dropped are %v, want %v: %v", account.Drops, want, err)
		}
	})
	w.stopAt(4 * time.Minute)
	w.start()
	w.result()
}

// A group without variance is let go and replaced by exactly one, however often its end is told.
func TestGroupsWithoutVarianceAreRefilledOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.spec.Steps, w.spec.Buffer.Depth = 1, 1
	w.spec.Group.ZeroVariance = runspec.DropZeroVariance
	games := w.playSlowly()
	w.at(time.Minute, func() {
		for seq := range rollout.GroupSeq(3) {
			games.end(w, seq, 0, 1, 0)
			last := 0.0
			if seq == 1 {
				last = 1
			}
			games.end(w, seq, 1, last, 1-last)
		}
	})
	w.at(2*time.Minute, func() {
		w.env.SignalWorkflow(workflows.SignalGroupEnd, activities.GroupEnd{Seq: 1, Code: rollout.CodeZeroVariance,
			ZeroVariance: true})
		counts, _ := w.buffer.Counts(context.Background(), "demo")
		if counts.Dropped != 1 || counts.Ready != 2 || counts.Queued != 1 {
			t.Errorf("%+v, want one dropped, two ready, one queued in its place", counts)
		}
		games.end(w, 3, 0, 1, 0)
		games.end(w, 3, 1, 0, 1)
	})
	w.at(3*time.Minute, func() { w.train(0) })
	w.start()
	status := w.result()
	if !slices.Equal(w.fed, []rollout.GroupSeq{0, 2, 3}) || status.Launched != 4 ||
		status.Failures[rollout.CodeZeroVariance] != 1 {
		t.Errorf("fed %v of %d launched, failures %v; want 0 2 3 of 4, and one without variance", w.fed,
			status.Launched, status.Failures)
	}
	if want := (runstatus.RewardVariance{Groups: 4, ZeroVariance: 1}); status.RewardVariance != want {
		t.Errorf("reward variance %+v, want %+v", status.RewardVariance, want)
	}
}

func TestCollapseIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.spec.Steps, w.spec.Buffer.Depth, w.spec.Buffer.GroupsPerStep = 2, 1, 20
	games := w.playSlowly()
	w.at(time.Minute, func() {
		for seq := range rollout.GroupSeq(20) {
			games.end(w, seq, 0, 1, 0)
			games.end(w, seq, 1, 1, 0)
		}
	})
	w.at(2*time.Minute, func() {
		if told := w.reported(); told.count("no reward variance") != 1 {
			t.Errorf("reported %q, want one alarm", told.all)
		}
		status, err := w.buffer.Status(context.Background(), "demo")
		if err != nil || !status.RewardVariance.Collapsed {
			t.Errorf("readers are told %+v (%v)", status.RewardVariance, err)
		}
		w.update(workflows.UpdateStop, "seen", func(any, error) {})
	})
	w.start()
	w.result()
	if told := w.reported(); len(told.variances) != 1 || !told.variances[0].Collapsed {
		t.Errorf("events of a changed reward variance: %+v, want one, of its collapse", told.variances)
	}
}
