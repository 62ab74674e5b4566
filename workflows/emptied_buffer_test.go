package workflows_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/store/eventstore"
)

// changes is what a run reported about itself, as Redis has it.
type changes struct {
	all       []string
	variances []runstatus.RewardVariance // that there is something to learn, or no more
}

// reported reads what the run has reported so far.
func (w *world) reported() changes {
	var told changes
	facts, err := store.New(w.rdb, "millrace", store.Limits{}).Facts(context.Background(), "demo", "", 1000)
	if err != nil {
		w.t.Error(err)
	}
	for _, f := range facts {
		e, err := f.Event()
		if err != nil {
			w.t.Error(err)
			continue
		}
		switch body := e.Body.(type) {
		case telemetry.RunChanged:
			told.all = append(told.all, body.Change)
		case telemetry.RewardVarianceChanged:
			told.variances = append(told.variances, body.RewardVariance)
		}
	}
	return told
}

func (c changes) count(prefix string) int {
	n := 0
	for _, change := range c.all {
		if strings.HasPrefix(change, prefix) {
			n++
		}
	}
	return n
}

// Redis has forgotten everything. The run says so and goes on at the step after the last one that was recorded,
// with groups that were never trained on; the trainer of the time before is fenced off.
func TestRunGoesOnAfterRedisHasLostEverything(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var before rollout.TrainerGeneration
	w.at(1*time.Minute, func() { w.train(0) })
	w.at(2*time.Minute, func() { w.train(1) })
	w.at(3*time.Minute, func() {
		if err := w.rdb.FlushDB(context.Background()).Err(); err != nil {
			t.Error(err)
		}
		before, w.generation = w.generation, 0
	})
	w.at(4*time.Minute, func() {
		account, err := w.buffer.Account(context.Background(), "demo")
		if err != nil || account.NextStep != 2 || account.ClaimedTo != 2 || account.Counts.Ready != 6 {
			t.Errorf("a minute later: %+v %v, want step 2 next and 6 groups ready", account, err)
		}
		w.train(2)
	})
	w.at(5*time.Minute, func() { w.train(3) })
	w.start()
	if status := w.result(); status.State != runstatus.RunCompleted || status.NextStep != 4 {
		t.Errorf("ended %s at step %d", status.State, status.NextStep)
	}
	fed := slices.Clone(w.fed)
	slices.Sort(fed)
	if len(fed) != 12 || len(slices.Compact(fed)) != 12 {
		t.Errorf("fed %v, want 12 groups, none twice", w.fed)
	}
	if told := w.reported(); told.count("repair the buffer") != 1 {
		t.Errorf("reported %q, want one repair", told.all)
	}
	if w.generation <= before {
		t.Errorf("generation %d after %d: the old trainer is not fenced off", w.generation, before)
	}
}

// missing is a Temporal in which one group has no workflow any more.
type missing rollout.GroupSeq

func (m missing) GroupRunning(_ context.Context, ref rollout.GroupRef) (bool, error) {
	return ref.Seq != rollout.GroupSeq(m), nil
}

// TellEnd leaves it to the group's workflow.
func (missing) TellEnd(context.Context, rollout.RunName, activities.GroupEnd) error {
	return errors.New("not connected")
}
