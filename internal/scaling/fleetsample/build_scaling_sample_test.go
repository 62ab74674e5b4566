package fleetsample

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/scaling"
)

var began = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

func after(sec float64) time.Time { return began.Add(time.Duration(sec * float64(time.Second))) }

func engine(id string, state enginestate.EngineState, models ...string) enginestate.Engine {
	return enginestate.Engine{ID: rollout.EngineID(id), State: state, MaxInFlight: 10, Models: models}
}

// runOf is a run of a model that has come to a step, and of which groups have become ready.
func runOf(name, model string, next rollout.Step, tokens ...int64) runLook {
	r := runLook{status: runstatus.RunStatus{State: runstatus.RunRunning}, next: next, after: "1-0"}
	r.status.Spec.Name, r.status.Spec.Model = rollout.RunName(name), model
	r.status.Spec.Buffer = runspec.BufferSpec{Depth: 2, GroupsPerStep: 2, MaxStaleness: 4}
	for _, n := range tokens {
		r.groups = append(r.groups, steprecord.GroupView{Usage: rollout.Usage{OutputTokens: n}, EpisodeSec: []float64{8}})
	}
	return r
}

// full is what an engine does in ten seconds with full slots.
func full(tokens float64) fleet.Work {
	return fleet.Work{Sec: 10, Running: 100, Limit: 100, Output: tokens}
}

func about(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6*max(1, math.Abs(want)) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// Two runs share a fleet whose engines have one base model each: the work of a run is that of its own engines, which
// here are half as fast as the others.
func TestRunsGoByTheirOwnEngines(t *testing.T) {
	t.Parallel()
	var m memory
	l := &look{now: began, engines: []enginestate.Engine{engine("a", enginestate.EngineReady, "small"),
		engine("b", enginestate.EngineReady, "large"), engine("c", enginestate.EngineReady, "large")},
		runs: []runLook{runOf("quick", "small", 0, 1000, 1000), runOf("slow", "large", 0, 1000, 1000)}}
	l.sample(&m)
	l.now, l.work = after(10), map[rollout.EngineID]fleet.Work{"a": full(1000), "b": full(500), "c": full(500)}
	s := l.sample(&m)
	quick, slow := s.Runs[0], s.Runs[1]
	about(t, "P of quick", quick.P, 20)
	about(t, "P of slow", slow.P, 20) // twice the work per token, on two engines
	about(t, "engines of quick", quick.Engines, 1)
	about(t, "engines of slow", slow.Engines, 2)
	about(t, "R/D", slow.RD, 4)
	about(t, "slots", float64(s.Slots), 10)
}

// Runs of one model share its engines, and what these do is of both.
func TestRunsOfOneModelShareItsEngines(t *testing.T) {
	t.Parallel()
	var m memory
	l := &look{now: began, engines: []enginestate.Engine{engine("a", enginestate.EngineReady, "m"),
		engine("b", enginestate.EngineReady)}}
	l.runs = []runLook{runOf("one", "m", 0, 1000, 1000), runOf("two", "m", 0, 3000, 3000)}
	l.sample(&m)
	l.now, l.work = after(10), map[rollout.EngineID]fleet.Work{"a": full(1000), "b": full(1000)}
	s := l.sample(&m)
	about(t, "P of one", s.Runs[0].P, 10)
	about(t, "P of two", s.Runs[1].P, 30)
}

// What a run needs stays known while no engine serves, while it restarts from an older Redis, and when the memory went
// through JSON, as a workflow keeps it.
func TestWhatIsKnownStays(t *testing.T) {
	t.Parallel()
	var m memory
	l := &look{now: began, engines: []enginestate.Engine{engine("a", enginestate.EngineReady, "m")},
		runs: []runLook{runOf("run", "m", 5, 1000, 1000)}}
	l.sample(&m)
	l.now, l.work = after(10), map[rollout.EngineID]fleet.Work{"a": full(1000)}
	l.runs[0].steps = []steprecord.StepRecord{{Step: 5, Done: true, Trainer: steprecord.StepReport{WallSec: 50,
		Phases: map[steprecord.Phase]float64{steprecord.PhaseWait: 20}}, Service: steprecord.ServiceView{CompletedAt: after(
		9)}}}
	l.runs[0].next = 6
	before := l.sample(&m).Runs[0]
	about(t, "C", before.C, 30)
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var again memory
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again, m) {
		t.Errorf("kept  %+v\nwant %+v", again, m)
	}
	l.now, l.work, l.runs[0].groups = after(20), nil, nil
	l.engines[0].State = enginestate.EngineLost
	l.runs[0].next = 5 // Redis has forgotten the step's record
	now := l.sample(&again)
	about(t, "P", now.Runs[0].P, before.P)
	about(t, "C", now.Runs[0].C, before.C)
	if now.Engines != (scaling.Engines{}) || now.Runs[0].Steps != 5 {
		t.Errorf("of a lost engine and a step that is not known: %+v", now)
	}
	l.now, l.runs[0].next = after(30), 6 // it was completed again
	about(t, "C of the same step twice", l.sample(&again).Runs[0].C, 30)
}

// Groups that are dropped are played, too: with as many dropped as trained on a batch is twice the work.
func TestDroppedGroupsAreWork(t *testing.T) {
	t.Parallel()
	var m memory
	r := runOf("run", "m", 3, 1000, 1000)
	for k := range rollout.Step(3) {
		r.steps = append(r.steps, steprecord.StepRecord{Step: k, Done: true, Trainer: steprecord.StepReport{WallSec: 1},
			Service: steprecord.ServiceView{Groups: make([]steprecord.GroupView, 2), AtClaim: steprecord.BufferCounts{
				Dropped: 2 * int64(k)}}})
		for i := range r.steps[k].Service.Groups {
			r.steps[k].Service.Groups[i].Usage.OutputTokens = 1000
		}
	}
	l := &look{now: began, engines: []enginestate.Engine{engine("a", enginestate.EngineReady, "m")}, runs: []runLook{r}}
	l.sample(&m)
	l.now, l.work = after(10), map[rollout.EngineID]fleet.Work{"a": full(1000)}
	about(t, "P", l.sample(&m).Runs[0].P, 40)
}

// A trainer has waited in a window for batches that it was given in it, and for the next one, as long as it asks.
func TestWaits(t *testing.T) {
	t.Parallel()
	granted := func(asked, granted float64) steprecord.StepRecord {
		return steprecord.StepRecord{Service: steprecord.ServiceView{FirstAskedAt: after(asked), GrantedAt: after(granted)}}
	}
	for _, tt := range []struct {
		name        string
		steps       []steprecord.StepRecord
		asked, last float64 // 0: never
		want        float64
		waits       bool
	}{
		{"it works", []steprecord.StepRecord{granted(1, 2)}, 0, 0, 0, false},
		{"a batch in the window", []steprecord.StepRecord{granted(12, 15)}, 0, 0, 3, false},
		{"begun before it", []steprecord.StepRecord{granted(5, 15)}, 0, 0, 5, false},
		{"and still", nil, 5, 19, 10, true},
		{"one batch, and waits for the next", []steprecord.StepRecord{granted(9, 11)}, 18, 19, 3, true},
		{"it asks no more", nil, -50, 3, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := runLook{steps: tt.steps}
			if tt.asked != 0 {
				r.asked, r.last = after(tt.asked), after(tt.last)
			}
			about(t, "the wait", r.waited(after(10), after(20)), tt.want)
			if r.waits(after(20)) != tt.waits {
				t.Errorf("waits now: %v", !tt.waits)
			}
		})
	}
}

// Engines do not see requests on their way: slots are full where the workers say so.
func TestSlotsAreFullByTheWorkersAccount(t *testing.T) {
	t.Parallel()
	var m memory
	l := &look{now: began, engines: []enginestate.Engine{engine("a", enginestate.EngineReady, "m")},
		fleet: steprecord.FleetView{SlotShare: 0.6}, runs: []runLook{runOf("run", "m", 0, 1000, 1000)},
		workers: []enginestate.Worker{{Requests: map[rollout.RunName]enginestate.RequestCounts{"run": {Queued: 30,
			InFlight: 10}}}}}
	l.sample(&m)
	l.now = after(10)
	l.work = map[rollout.EngineID]fleet.Work{"a": {Sec: 10, Running: 60, Limit: 100, Output: 1000}}
	s := l.sample(&m)
	about(t, "slot share", s.SlotShare, 1)
	about(t, "outstanding", float64(s.Outstanding), 40)
	about(t, "P", s.Runs[0].P, 20)
}

// Those that were not bought are counted apart.
func TestOthers(t *testing.T) {
	t.Parallel()
	engines := []enginestate.Engine{engine("a", enginestate.EngineReady), engine("b", enginestate.EngineLoading),
		engine("c", enginestate.EngineLost), engine("d", enginestate.EngineDraining)}
	engines[0].Source, engines[1].Source = fleet.SourceScaling, "file:engines.txt"
	if got, want := Members(engines), (scaling.Engines{Starting: 1, Ready: 1, Draining: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := Others(engines), (scaling.Engines{Starting: 1, Draining: 1}); got != want {
		t.Errorf("others: got %+v, want %+v", got, want)
	}
}

// An engine that takes fewer requests at once than it is given is full, however many slots it is said to have: its rate
// is that of full slots, and what its requests wait inside of it is no latency of the games.
func TestEnginesWithAQueueAreFull(t *testing.T) {
	t.Parallel()
	var m memory
	l := &look{now: began, engines: []enginestate.Engine{engine("a", enginestate.EngineReady, "m")},
		runs: []runLook{runOf("run", "m", 0)}}
	l.sample(&m)
	l.now = after(10)
	l.work = map[rollout.EngineID]fleet.Work{"a": {Sec: 10, Limit: 1000, Output: 1000,
		Running: 10, Waiting: 30, Crowded: 10}}
	l.runs[0].groups = []steprecord.GroupView{{Usage: rollout.Usage{OutputTokens: 1000}, EpisodeSec: []float64{10},
		ModelSec: []float64{8}, EnvSec: []float64{2}}}
	s := l.sample(&m)
	about(t, "saturation", s.Saturation, 1)
	about(t, "P", s.Runs[0].P, 20)
	about(t, "R/D", s.Runs[0].RD, 2) // of 8 s at the engine 6 are its queue
	if before := l.runs[0].groups[0].ModelSec[0]; before != 8 {
		t.Errorf("the group itself was changed to %v s", before)
	}

	l.now, l.work = after(12), nil
	about(t, "saturation, as long as nothing else is heard", l.sample(&m).Saturation, 1)
	l.now = after(20)
	l.work = map[rollout.EngineID]fleet.Work{"a": {Sec: 10, Limit: 1000, Output: 1000,
		Running: 39, Waiting: 1}}
	about(t, "saturation of an engine in which nothing waits for long", l.sample(&m).Saturation, 0)
}

// What a Redis that came back empty has lost is dropped at once, and nobody plays it.
func TestLostGroupsAreNoWork(t *testing.T) {
	t.Parallel()
	k := runMemory{Claims: []claim{{0, 2, 0}, {1, 2, 0}, {2, 2, 150}, {3, 2, 150}}}
	k.Terms.Depth, k.Terms.GroupsPerStep = 2, 2
	about(t, "dropped for each that is trained on", k.dropRate(), 4.0/6)
}

// A step whose publication waited for a fleet that slept says nothing of the trainer's compute, unless nothing else
// does.
func TestAStepInWhichNoEngineServed(t *testing.T) {
	t.Parallel()
	var m memory
	done := func(step rollout.Step, from, to float64) []steprecord.StepRecord {
		return []steprecord.StepRecord{{Step: step, Done: true, Trainer: steprecord.StepReport{WallSec: to - from},
			Service: steprecord.ServiceView{GrantedAt: after(from), CompletedAt: after(to)}}}
	}
	l := &look{now: began, engines: []enginestate.Engine{engine("a", enginestate.EngineReady, "m")},
		runs: []runLook{runOf("run", "m", 0)}}
	l.sample(&m)
	l.now, l.runs[0].next, l.runs[0].steps = after(40), 1, done(0, 10, 30)
	about(t, "C", l.sample(&m).Runs[0].C, 20)
	l.now, l.runs[0].steps, l.engines[0].State = after(60), nil, enginestate.EngineLost
	l.sample(&m)
	l.now, l.runs[0].next, l.engines[0].State = after(210), 2, enginestate.EngineReady
	l.runs[0].steps = done(1, 40, 200)
	about(t, "C after a step that waited for engines", l.sample(&m).Runs[0].C, 20)
	l.now, l.runs[0].next, l.runs[0].steps = after(250), 3, done(2, 210, 240)
	about(t, "C after one that did not", l.sample(&m).Runs[0].C, 25)
}
