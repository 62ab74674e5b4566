package enginestate_test

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// What workers say of one engine is joined: of those that are alive, by whose requests it concerns.
func TestClosures(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	worker := func(state enginestate.WorkerState, breakers ...enginestate.Breaker) enginestate.Worker {
		return enginestate.Worker{State: state, Breakers: breakers}
	}
	silent := enginestate.Breaker{Engine: "a", Reason: "3 requests in a row got no answer", Since: now,
		NextProbe: now.Add(2 * time.Second)}
	later := silent
	later.Since = now.Add(time.Second)
	ofRun := enginestate.Breaker{Engine: "a", Run: "r", Reason: "a request failed (wrong_model)", Since: now}
	got := enginestate.Closures("a", []enginestate.Worker{
		worker(enginestate.WorkerAlive, ofRun, later), worker(enginestate.WorkerAlive, silent,
			enginestate.Breaker{Engine: "b"}),
		worker(enginestate.WorkerAlive), worker(enginestate.WorkerAbsent, silent),
	})
	want := []string{
		"not dispatched to by 2 of 3 workers: 3 requests in a row got no answer; next probe in 2 s",
		"not dispatched to for run r by 1 of 3 workers: a request failed (wrong_model); one request tries",
	}
	if len(got) != len(want) {
		t.Fatalf("got %+v", got)
	}
	for i, c := range got {
		if c.Text(now) != want[i] {
			t.Errorf("got  %s\nwant %s", c.Text(now), want[i])
		}
	}
}
