package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/store/eventstore"
)

// records answers the steps of one run, and counts how often it is asked.
type records struct {
	fail  bool
	asked int
}

func (r *records) Steps(_ context.Context, _ rollout.RunName, from rollout.Step,
	limit int) ([]steprecord.StepRecord, error) {
	r.asked++
	if r.fail {
		return nil, errors.New("redis is unavailable")
	}
	var out []steprecord.StepRecord
	for step := from; step < from+rollout.Step(limit); step++ {
		completed := time.Unix(1000+10*int64(step), 0)
		out = append(out, steprecord.StepRecord{Step: step, Done: true, Service: steprecord.ServiceView{
			CompletedAt: completed}})
	}
	return out, nil
}

// A run's progress is since its latest step, or since it was started or resumed if that was later; records are read
// when there are new ones.
func TestStandingReader(t *testing.T) {
	t.Parallel()
	source := &records{}
	reader := standingReader{steps: source, facts: &changes{}, known: map[rollout.RunName]*knownRun{}}
	started := time.Unix(900, 0)
	for i, tt := range []struct {
		name   string
		state  runstatus.RunState
		next   rollout.Step
		at     int64 // when it is looked at
		fail   bool
		since  int64
		latest int
		asked  int
	}{
		{"started", runstatus.RunRunning, 0, 905, false, 900, 0, 0},
		{"a step is completed, and Redis does not answer", runstatus.RunRunning, 1, 1001, true, 900, 0, 1},
		{"it answers", runstatus.RunRunning, 1, 1003, false, 1000, 1, 2},
		{"nothing new", runstatus.RunRunning, 1, 1005, false, 1000, 1, 2},
		{"many steps later", runstatus.RunRunning, 30, 1301, false, 1290, 10, 3},
		{"paused", runstatus.RunPaused, 30, 2000, false, 1290, 10, 3},
		{"resumed", runstatus.RunRunning, 30, 5000, false, 5000, 10, 3},
		{"and goes on", runstatus.RunRunning, 30, 5002, false, 5000, 10, 3},
	} {
		source.fail = tt.fail
		status := runstatus.RunStatus{Spec: runspec.Spec{Name: "demo"}, State: tt.state, NextStep: tt.next,
			StartedAt: started}
		got := reader.read(t.Context(), []runstatus.RunStatus{status}, time.Unix(tt.at, 0))[0]
		if got.Since.Unix() != tt.since || len(got.Latest) != tt.latest || source.asked != tt.asked {
			t.Errorf("%d %s: since %d with %d records, asked %d times; want %d, %d, %d", i, tt.name, got.Since.Unix(),
				len(got.Latest), source.asked, tt.since, tt.latest, tt.asked)
		}
	}
	if reader.read(t.Context(), nil, time.Unix(6000, 0)); len(reader.known) != 0 {
		t.Error("a run that is over is remembered")
	}
}

// changes are the changes of one run.
type changes struct {
	fail   bool
	events []telemetry.Event
	after  string
}

func (c *changes) Facts(_ context.Context, _ rollout.RunName, after string, _ int, kinds ...string) ([]store.Record,
	error) {
	if c.fail {
		return nil, errors.New("redis is unavailable")
	}
	c.after = after
	var found []store.Record
	for _, e := range c.events {
		data, err := telemetry.Encode(e)
		if err != nil {
			return nil, err
		}
		found = append(found, store.Record{Kind: kinds[0], Data: data})
	}
	return found, nil
}

// A server that has just been started counts a run's time from when it was resumed, although it has not seen the pause.
func TestResumedBeforeTheServerWasStarted(t *testing.T) {
	t.Parallel()
	changed := func(at int64, change string) telemetry.Event {
		return telemetry.Event{At: time.Unix(at, 0).UTC(), Run: "demo", Body: telemetry.RunChanged{
			State: runstatus.RunRunning, Change: change}}
	}
	status := runstatus.RunStatus{Spec: runspec.Spec{Name: "demo"}, State: runstatus.RunRunning, NextStep: 30,
		StartedAt: time.Unix(900, 0)}
	for _, tt := range []struct {
		name   string
		events []telemetry.Event
		since  int64
	}{
		{"nothing was changed", nil, 1290},
		{"set", []telemetry.Event{changed(1400, "set buffer.depth=4 (was 2)")}, 1290},
		{"resumed", []telemetry.Event{changed(1300, "pause"), changed(9000, "resume")}, 9000},
		{"set and resumed", []telemetry.Event{changed(9000, "set buffer.depth=4 (was 2) resume")}, 9000},
		{"paused again", []telemetry.Event{changed(8000, "resume"), changed(9000, "pause")}, 8000},
	} {
		facts := &changes{events: tt.events, fail: true}
		reader := standingReader{steps: &records{}, facts: facts, known: map[rollout.RunName]*knownRun{}}
		look := func() int64 {
			return reader.read(t.Context(), []runstatus.RunStatus{status}, time.Unix(9100, 0))[0].Since.Unix()
		}
		if since := look(); since != 1290 {
			t.Errorf("%s: since %d while Redis does not answer", tt.name, since)
		}
		facts.fail = false
		if since := look(); since != tt.since || facts.after != "1290000-0" {
			t.Errorf("%s: since %d, asked after %s; want %d", tt.name, since, facts.after, tt.since)
		}
		facts.events, facts.after = nil, ""
		if since := look(); since != tt.since || facts.after != "" {
			t.Errorf("%s: it is asked again, or forgotten: since %d", tt.name, since)
		}
	}
}
