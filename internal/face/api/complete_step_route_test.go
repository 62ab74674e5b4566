package api_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/store/buffer/readcompact"
)

// batch is a batch as a trainer reads it.
type batch struct {
	rollout.Batch
	Groups []struct {
		rollout.Group
		Constraints  []rollout.Constraint `json:"constraints"`
		Trajectories []struct {
			rollout.Trajectory
			Turns []struct {
				rollout.Turn
				Constraint *int  `json:"constraint_index"`
				LossMask   []int `json:"loss_mask"`
			} `json:"turns"`
		} `json:"trajectories"`
	} `json:"groups"`
}

func TestTrainerLoop(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	f.start()
	f.ready(0, 1, 2, 3, 4, 5)
	var attached api.Attached
	f.want(f.do("POST", "/v1/runs/demo/trainer", "{}"), 200).into(&attached)
	if attached.Generation != 1 || attached.NextStep != 0 || attached.PolicyVersion != 0 || attached.Spec.Name != run {
		t.Fatalf("attached: %+v", attached)
	}
	for step := range 3 {
		var b batch
		f.want(f.do("POST", fmt.Sprintf("/v1/runs/demo/steps/%d/claim?generation=1&wait=5s", step), ""), 200).into(&b)
		if b.Run != run || b.Step != rollout.Step(step) || len(b.Groups) != 2 ||
			b.Groups[0].Ref.Seq != rollout.GroupSeq(2*step) {
			t.Fatalf("step %d: %+v", step, b.Batch)
		}
		for _, g := range b.Groups {
			if !reflect.DeepEqual(g.Constraints, []rollout.Constraint{held}) {
				t.Errorf("constraints %+v, want each once: %+v", g.Constraints, held)
			}
			for _, trajectory := range g.Trajectories {
				for _, turn := range trajectory.Turns {
					if n := len(turn.TokenIDs); n == 0 || n != len(turn.Logprobs) || n != len(turn.LossMask) || turn.LossMask[0] != 1 {
						t.Errorf("lengths differ: %+v", turn)
					}
					if free := turn.Phase == "2"; free != (turn.Constraint == nil) {
						t.Errorf("phase %s refers to constraint %v", turn.Phase, turn.Constraint)
					}
				}
			}
		}
		version := step + 1
		f.want(f.do("PUT", fmt.Sprintf("/v1/runs/demo/policies/%d", version), `{"path":"/adapters/v"}`), 200)
		record := `{"generation":1,"wall_seconds":2,"phases":{"wait":0.5,"train":1.5},"metrics":{"loss":0.1}}`
		f.want(f.do("PUT", fmt.Sprintf("/v1/runs/demo/steps/%d", step), record), 201)
		f.want(f.do("PUT", fmt.Sprintf("/v1/runs/demo/steps/%d", step), record), 200)
	}
	f.refused(f.do("POST", "/v1/runs/demo/steps/3/claim?generation=1&wait=5s", ""), 410, "run-over")

	var steps struct {
		Steps []steprecord.StepRecord `json:"steps"`
		Next  *rollout.Step           `json:"next"`
	}
	f.want(f.do("GET", "/v1/runs/demo/steps?from=1&limit=2", ""), 200).into(&steps)
	if len(steps.Steps) != 2 || steps.Steps[0].Step != 1 || !steps.Steps[1].Done || *steps.Next != 3 {
		t.Errorf("steps: %+v", steps)
	}
	for range 3 * 3 { // a claim and two records for each step
		if got := <-f.control.hinted; got != run {
			t.Errorf("run %s is told that its buffer has changed", got)
		}
	}
}

func TestBatchIsWhatTheStoreHolds(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	f.start()
	f.ready(0, 1)
	f.attach()
	want := rollout.Batch{Run: run, Groups: []rollout.Group{*group(0), *group(1)}}

	const path = "/v1/runs/demo/steps/0/claim?generation=1"
	plain := f.want(f.do("POST", path, ""), 200)
	zipped := f.want(f.do("POST", path, "", "Accept-Encoding", "zstd;q=1, gzip"), 200)
	if zipped.header.Get("Content-Encoding") != "gzip" {
		t.Fatal("not compressed")
	}
	unzip, err := gzip.NewReader(bytes.NewReader(zipped.body))
	if err != nil {
		t.Fatal(err)
	}
	same, err := io.ReadAll(unzip)
	if err != nil || !bytes.Equal(plain.body, same) {
		t.Errorf("compressed batch differs: %v", err)
	}
	var got rollout.Batch
	plain.into(&got)
	for i := range got.Groups { // A turn of the JSON says by a number what its answer was held to.
		for k := range got.Groups[i].Trajectories {
			got.Groups[i].Trajectories[k].Turns[0].Constraint = held
		}
	}
	if !sameJSON(t, got, want) {
		t.Errorf("got  %s\nwant %+v", plain.body, want)
	}
	compact := f.want(f.do("POST", path, "", "Accept", api.CompactBatch, "Accept-Encoding", "gzip"), 200)
	if compact.header.Get("Content-Type") != api.CompactBatch || compact.header.Get("Content-Encoding") != "" {
		t.Errorf("headers: %v", compact.header)
	}
	read, err := readcompact.Batch(bytes.NewReader(compact.body))
	if err != nil || !sameJSON(t, read, want) {
		t.Errorf("compact: %v, %+v", err, read)
	}
}

// sameJSON compares by what both mean; lists that are empty or absent are the same.
func sameJSON(t *testing.T, a, b any) bool {
	t.Helper()
	var values [2]any
	for i, v := range []any{a, b} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &values[i]); err != nil {
			t.Fatal(err)
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}

func TestRecordWithoutPhases(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	f.start()
	f.ready(0, 1)
	f.attach()
	f.want(f.do("POST", "/v1/runs/demo/steps/0/claim?generation=1", ""), 200)
	f.want(f.do("PUT", "/v1/runs/demo/steps/0", `{"generation":1,"wall_seconds":1,"phases":null,"metrics":null}`), 201)
}

func TestRanksShareABatch(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	f.start()
	f.ready(0, 1)
	f.attach()
	seen := map[string]int{}
	for rank := range 3 {
		var b rollout.Batch
		f.want(f.do("POST", "/v1/runs/demo/steps/0/claim", fmt.Sprintf(`{"generation":1,"rank":%d,"world":3}`, rank)),
			200).into(&b)
		for _, g := range b.Groups {
			for _, trajectory := range g.Trajectories {
				seen[trajectory.ID]++
			}
		}
	}
	if len(seen) != 8 {
		t.Errorf("%d trajectories over all ranks, want 8: %v", len(seen), seen)
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s given to %d ranks", id, n)
		}
	}
}

func TestClaimWaitsForTheBatch(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	f.start()
	f.attach()
	f.ready(0)
	claimed := make(chan *answer, 1)
	go func() { claimed <- f.do("POST", "/v1/runs/demo/steps/0/claim?generation=1&wait=50s", "") }()
	f.waitFor("batch") // The poll is listed, so it has found nothing.
	f.ready(1)
	f.want(<-claimed, 200)
}

// waitFor asks until the run lists a wait of this kind.
func (f *fixture) waitFor(what string) api.Wait {
	f.t.Helper()
	for {
		var list struct{ Waits []api.Wait }
		f.want(f.do("GET", "/v1/runs/demo/waits", ""), 200).into(&list)
		for _, w := range list.Waits {
			if w.What == what && (what != "batch" || !w.Deadline.IsZero()) {
				return w
			}
		}
	}
}

func TestClaimAnswersNotReady(t *testing.T) {
	t.Parallel()
	f := serve(t, func(c *api.Config, _ *api.Deps) { c.MaxWait = 30 * time.Millisecond })
	f.start()
	f.attach()
	f.ready(0)
	for _, wait := range []string{"", "&wait=0", "&wait=1h", "&wait=30"} {
		a := f.want(f.do("POST", "/v1/runs/demo/steps/0/claim?generation=1"+wait, ""), 204)
		for name, want := range map[string]string{
			"Retry-After": "1", "X-Millrace-Ready": "1", "X-Millrace-Needed": "2", "X-Millrace-Pending": "0",
			"X-Millrace-State": "running",
		} {
			if got := a.header.Get(name); got != want {
				t.Errorf("wait %q: %s: %q, want %q", wait, name, got, want)
			}
		}
		if a.header.Get("X-Millrace-Reason") == "" {
			t.Error("no reason")
		}
	}
}

func TestStoppingServerEndsPollsAtOnce(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	f.start()
	f.attach()
	claimed := make(chan *answer, 1)
	go func() { claimed <- f.do("POST", "/v1/runs/demo/steps/0/claim?generation=1&wait=50s", "") }()
	if w := f.waitFor("batch"); w.Owner != "trainer, step 0, generation 1" {
		t.Errorf("owner: %+v", w)
	}
	f.stop()
	f.want(<-claimed, 204)
}

func TestNewTrainerFencesTheOld(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	f.start()
	f.attach()
	old := make(chan *answer, 1)
	go func() { old <- f.do("POST", "/v1/runs/demo/steps/0/claim?generation=1&wait=50s", "") }()
	f.waitFor("batch")
	if generation := f.attach(); generation != 2 {
		t.Fatalf("generation %d, want 2", generation)
	}
	f.refused(<-old, 409, "fenced")
	f.refused(f.do("PUT", "/v1/runs/demo/steps/0", `{"generation":1,"wall_seconds":1}`), 409, "fenced")
}

func TestTrainerResumesFromItsCheckpoint(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	f.start()
	f.ready(0, 1, 2, 3)
	f.attach()
	first := f.want(f.do("POST", "/v1/runs/demo/steps/0/claim?generation=1", ""), 200)
	f.want(f.do("PUT", "/v1/runs/demo/steps/0", `{"generation":1,"wall_seconds":1}`), 201)
	var attached api.Attached
	f.want(f.do("POST", "/v1/runs/demo/trainer", `{"resume_from":0}`), 200).into(&attached)
	if attached.NextStep != 0 || attached.Generation != 2 {
		t.Fatalf("attached: %+v", attached)
	}
	again := f.want(f.do("POST", "/v1/runs/demo/steps/0/claim?generation=2", ""), 200)
	if !bytes.Equal(first.body, again.body) {
		t.Error("another batch for the same step")
	}
}

// As long as nobody has announced himself there is nobody to be fenced off by: a claim and a record by hand need no
// generation.
func TestAnAnonymousTrainerIsServedUntilOneAnnouncesItself(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	f.start()
	f.ready(0, 1, 2, 3)
	f.want(f.do("POST", "/v1/runs/demo/steps/0/claim", ""), 200)
	f.want(f.do("PUT", "/v1/runs/demo/steps/0", `{"phases":{"wait":0.5,"train":1.5}}`), 201)
	var record steprecord.StepRecord
	f.want(f.do("GET", "/v1/runs/demo/steps/0", ""), 200).into(&record)
	if record.Trainer.WallSec != 2 {
		t.Errorf("wall time %v, want the phases' sum", record.Trainer.WallSec)
	}
	f.want(f.do("POST", "/v1/runs/demo/trainer", "{}"), 200)
	f.refused(f.do("POST", "/v1/runs/demo/steps/1/claim", ""), 409, "fenced", "generation=N")
}

func TestAReplacedTrainerDoesNotPublish(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	f.start()
	old := f.attach()
	now := f.attach()
	f.refused(f.do("PUT", "/v1/runs/demo/policies/1", fmt.Sprintf(`{"path":"/adapters/old","generation":%d}`, old)), 409,
		"fenced", "replaced")
	f.want(f.do("PUT", "/v1/runs/demo/policies/1", fmt.Sprintf(`{"path":"/adapters/new","generation":%d}`, now)), 200)
}

// TestATrainerWaitsForARunThatRedisHasForgotten: its run's workflow opens it again. Whatever a trainer asks meanwhile
// is asked again, and so is what others look at.
func TestATrainerWaitsForARunThatRedisHasForgotten(t *testing.T) {
	t.Parallel()
	var answers atomic.Bool
	answers.Store(true)
	f := serve(t, func(_ *api.Config, deps *api.Deps) {
		deps.Control, deps.Temporal = &forgetful{Control: deps.Control}, answers.Load
	})
	calls := []struct{ method, path, body string }{
		{"POST", "/trainer", ""},
		{"PUT", "/steps/0", `{"generation":1,"wall_seconds":1}`},
		{"PUT", "/policies/1", `{"path":"/adapters/a","generation":1}`},
		{"GET", "", ""},
	}
	asked := func(run, code string, status int) {
		t.Helper()
		for _, c := range calls {
			f.refused(f.do(c.method, "/v1/runs/"+run+c.path, c.body), status, code, run)
		}
	}
	asked("other", "no-such-run", 404)
	f.start()
	f.attach()
	f.redis.FlushAll()
	asked("demo", "unavailable", 503)
	answers.Store(false)
	f.refused(f.do("GET", "/v1/runs/nobody", ""), 404, "no-such-run", "nobody") // whom no trainer awaits
	asked("other", "unavailable", 503)                                          // whether it is there, Temporal knows
	answers.Store(true)
	asked("other", "unavailable", 503) // which needs a while to bring it back
	if _, _, err := f.control.Start(t.Context(), spec()); err != nil {
		t.Fatal(err)
	}
	if err := f.control.Delete(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	answers.Store(false)
	asked("demo", "no-such-run", 404)
}

// A run whose workflow came back older refuses the version that its account takes next: the trainer asks again until
// the run has caught up, and a version that follows neither is refused for good.
func TestPublishingToARunThatIsBehindItsAccount(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	f.start()
	if err := f.store.SetVersion(t.Context(), "demo", 7, 0); err != nil {
		t.Fatal(err)
	}
	for _, next := range []int{7, 8} {
		f.refused(f.do("PUT", fmt.Sprintf("/v1/runs/demo/policies/%d", next), `{"path":"/adapters/v"}`), 503,
			"unavailable", "catches up first")
	}
	f.refused(f.do("PUT", "/v1/runs/demo/policies/9", `{"path":"/adapters/v"}`), 409, "out-of-order")
}
