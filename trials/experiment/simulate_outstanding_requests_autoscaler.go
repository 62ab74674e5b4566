package experiment

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/simulate/sim"
)

// Scaling is an autoscaler that goes by how many requests are outstanding, as serverless platforms do: it wants one
// engine for every Target of them. More are started at once; one ends when fewer were wanted for all of ScaleDown. It
// is not the queue policy of package scaling, which waits before it starts engines, too, and knows their cold starts:
// what was published with this one must come out the same.
type Scaling struct {
	Target    int              `json:"target"`
	Least     int              `json:"least"`
	Most      int              `json:"most"`
	ScaleDown rollout.Duration `json:"scale_down"`
}

// wants is how many engines so many outstanding requests ask for.
func (s Scaling) wants(outstanding int) int {
	return min(max((outstanding+s.Target-1)/s.Target, s.Least), s.Most)
}

// maxScalings bounds the engines that are started and ended in one run: each makes the run be simulated once more.
const maxScalings = 200

// scaled plays a setup whose engines an autoscaler starts and ends. What it does at a moment follows from what came
// before and changes only what comes after, so the run is simulated again with each of its decisions, until it makes
// no more.
func (s Scaling) scaled(ctx context.Context, setup sim.Setup) (sim.Result, error) {
	setup.Fleet.Engines = s.Least
	setup.Fleet.Events = nil
	serving := make([]int, s.Least) // numbers of the engines that are there or started
	for i := range serving {
		serving[i] = i
	}
	began := s.Least
	decided := time.Duration(-1)
	for range maxScalings {
		until, enough := context.WithCancel(ctx)
		w := &scalingWatch{scaling: s, have: len(serving), decided: decided, enough: enough}
		result, err := sim.Run(until, setup, sim.Options{Log: w.log})
		enough()
		if ctx.Err() != nil || !w.found {
			return result, err
		}
		decided = w.at
		for range w.want - len(serving) {
			setup.Fleet.Events = append(setup.Fleet.Events,
				sim.FleetEvent{At: rollout.Duration(w.at), Engine: began, Kind: sim.AddEngine})
			serving = append(serving, began)
			began++
		}
		for len(serving) > w.want {
			last := serving[len(serving)-1]
			serving = serving[:len(serving)-1]
			setup.Fleet.Events = append(setup.Fleet.Events,
				sim.FleetEvent{At: rollout.Duration(w.at), Engine: last, Kind: sim.DrainEngine})
		}
	}
	return sim.Result{}, fmt.Errorf("the autoscaler starts and ends engines more than %d times; raise scaling.scale_down",
		maxScalings)
}

// scalingWatch finds the autoscaler's next decision in a run.
type scalingWatch struct {
	scaling Scaling
	have    int
	decided time.Duration // decisions up to then are made

	began       time.Time
	started     bool
	outstanding map[dispatch.ID]bool
	needed      time.Duration // when as many as there are were wanted last
	enough      func()        // ends the simulation: a decision is found

	found bool
	at    time.Duration
	want  int
}

// log hears every event of the scheduler.
func (w *scalingWatch) log(now time.Time, event dispatch.Event, commands []dispatch.Command) {
	if !w.started {
		w.started, w.began, w.outstanding = true, now, map[dispatch.ID]bool{}
	}
	if w.found {
		return
	}
	if submitted, ok := event.(dispatch.Submit); ok {
		w.outstanding[submitted.ID] = true
	}
	if ended, ok := event.(dispatch.TryEnded); ok && ended.Outcome == dispatch.Served {
		delete(w.outstanding, ended.ID)
	}
	for _, c := range commands {
		if rejected, ok := c.(dispatch.Reject); ok {
			delete(w.outstanding, rejected.ID)
		}
	}
	if w.decide(now.Sub(w.began)); w.found {
		w.enough()
	}
}

func (w *scalingWatch) decide(now time.Duration) {
	want := w.scaling.wants(len(w.outstanding))
	if want >= w.have {
		w.needed = now
	}
	if now <= w.decided {
		w.needed = now // what was decided then stands
		return
	}
	switch {
	case want > w.have:
		w.found, w.at, w.want = true, now, want
	case now-w.needed > w.scaling.ScaleDown.Std():
		w.found, w.at, w.want = true, now, w.have-1
	}
}
