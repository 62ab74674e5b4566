package workflows_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry"
	"github.com/millrace/millrace/workflows"
)

// changes collects what a run reports about itself.
type changes struct {
	mu      sync.Mutex
	all     []string
	signals []rollout.Signal // that there is something to learn, or no more
}

func (c *changes) Emit(e telemetry.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch body := e.Body.(type) {
	case telemetry.RunChanged:
		c.all = append(c.all, body.Change)
	case telemetry.SignalChanged:
		c.signals = append(c.signals, body.Signal)
	}
}

func (c *changes) count(prefix string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
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
	told := &changes{}
	w.acts.Emit = told
	var before rollout.Epoch
	w.at(1*time.Minute, func() { w.train(0) })
	w.at(2*time.Minute, func() { w.train(1) })
	w.at(3*time.Minute, func() {
		if err := w.rdb.FlushDB(context.Background()).Err(); err != nil {
			t.Error(err)
		}
		before, w.epoch = w.epoch, 0
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
	if status := w.result(); status.State != rollout.RunCompleted || status.NextStep != 4 {
		t.Errorf("ended %s at step %d", status.State, status.NextStep)
	}
	fed := slices.Clone(w.fed)
	slices.Sort(fed)
	if len(fed) != 12 || len(slices.Compact(fed)) != 12 {
		t.Errorf("fed %v, want 12 groups, none twice", w.fed)
	}
	if told.count("restore the buffer") != 1 {
		t.Errorf("reported %q, want one restoration", told.all)
	}
	if w.epoch <= before {
		t.Errorf("epoch %d after %d: the old trainer is not fenced off", w.epoch, before)
	}
}

// missing is a Temporal in which one group has no workflow any more.
type missing rollout.GroupSeq

func (m missing) GroupRunning(_ context.Context, ref rollout.GroupRef) (bool, error) {
	return ref.Seq != rollout.GroupSeq(m), nil
}

// A group's workflow that ends without a word is missed at once.
func TestGroupThatVanishedIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.acts.Groups = missing(2)
	group := func(ctx workflow.Context, in workflows.GroupInput) (activities.GroupEnd, error) {
		if in.Plan.Ref.Seq == 2 { // terminated: it tells nobody
			return activities.GroupEnd{}, workflow.Sleep(ctx, time.Minute)
		}
		return workflows.Group(ctx, in)
	}
	w.env.RegisterWorkflowWithOptions(group, workflow.RegisterOptions{Name: "Group", DisableAlreadyRegisteredCheck: true})
	w.at(59*time.Second, func() {
		if counts, _ := w.buffer.Counts(context.Background(), "demo"); counts.Ready != 5 {
			t.Errorf("%+v, want 5 ready of 6", counts)
		}
	})
	w.at(61*time.Second, func() {
		if counts, _ := w.buffer.Counts(context.Background(), "demo"); counts.Ready != 6 || counts.Dropped != 1 {
			t.Errorf("%+v, want 6 ready and one dropped", counts)
		}
		w.update(workflows.UpdateStop, "seen", func(any, error) {})
	})
	w.start()
	if status := w.result(); status.Failures["vanished"] != 1 || status.Launched != 7 {
		t.Errorf("failures %v of %d launched, want one vanished of 7", status.Failures, status.Launched)
	}
}

// What an earlier execution began is looked for: a group that is missing twice is replaced, and that it was missing
// once outlives the cut of the history.
func TestVanishedGroupOfAnEarlierExecutionIsReplaced(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		state    string
		atLatest time.Duration
	}{
		{"not missed yet", `"playing": [{"seq": 2}], "next_seq": 3`, 31 * time.Second},
		{"missed before the cut", `"playing": [{"seq": 2}], "next_seq": 3, "missing": [2]`, 16 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.acts.Groups = missing(2)
			if err := w.buffer.Open(t.Context(), w.spec, ""); err != nil {
				t.Fatal(err)
			}
			w.at(tt.atLatest, func() {
				if counts, _ := w.buffer.Counts(context.Background(), "demo"); counts.Ready != 6 || counts.Dropped != 1 {
					t.Errorf("%+v after %v, want 6 ready and one dropped", counts, tt.atLatest)
				}
				w.update(workflows.UpdateStop, "seen", func(any, error) {})
			})
			spec, err := json.Marshal(w.spec)
			if err != nil {
				t.Fatal(err)
			}
			var in workflows.RunInput
			carried := fmt.Sprintf(`{"spec": %s, "state": {"spec": %s, "state": "running", "failures": {}, %s}}`, spec, spec, tt.state)
			if err := json.Unmarshal([]byte(carried), &in); err != nil {
				t.Fatal(err)
			}
			in.Queues = workflows.Deployment("test").Queues()
			w.env.ExecuteWorkflow(workflows.Run, in)
			if status := w.result(); status.Failures["vanished"] != 1 || status.Launched != 9 {
				t.Errorf("failures %v of %d launched, want one vanished of 9", status.Failures, status.Launched)
			}
		})
	}
}

// A trainer claimed and recorded a step, and nobody told the run: it finds out by itself, and says that it did.
func TestLostNotificationIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	told := &changes{}
	w.acts.Emit = told
	w.silent = true
	w.at(time.Minute, func() { w.train(0) })
	w.at(2*time.Minute, func() {
		if counts, _ := w.buffer.Counts(context.Background(), "demo"); counts.Ready != 6 {
			t.Errorf("%+v, want 6 ready again", counts)
		}
		w.update(workflows.UpdateStop, "seen", func(any, error) {})
	})
	w.start()
	w.result()
	if told.count("corrected its account") != 1 {
		t.Errorf("reported %q, want one correction", told.all)
	}
}
