package requestsim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/diagnosis/runrecord"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// Recorded is what a run left.
type Recorded struct {
	Record *runrecord.Record
	Walls  []float64 // of the steps, without the prefill
	Waits  []float64
}

// Steady is the mean of the last n steps.
func (r *Recorded) Steady(n int) float64 {
	n = max(1, min(n, len(r.Walls)-1))
	sum := 0.0
	for _, sec := range r.Walls[len(r.Walls)-n:] {
		sum += sec
	}
	return sum / float64(n)
}

var origin = time.Date(2026, time.March, 2, 9, 0, 0, 0, time.UTC)

func at(sec float64) time.Time { return origin.Add(time.Duration(sec * float64(time.Second))) }

// recorder writes down what the service would.
type recorder struct {
	sim    *sim
	record *runrecord.Record
	views  map[int]steprecord.ServiceView // of steps that are claimed
	since  fleetSums
	walls  []float64
	waits  []float64
	keys   int
}

// fleetSums is the sums of all engines at a moment.
type fleetSums struct {
	at, queuedSec float64
	engines       []engineSums
}

func newRecorder(s *sim) *recorder {
	w := &s.w
	spec := runspec.Spec{Name: rollout.RunName(w.Name), Model: "base", Steps: w.Steps, Seed: int64(w.Seed)}
	spec.Group = runspec.GroupSpec{Samples: w.Games, MinSamples: w.Games, Oversample: w.Oversample,
		ZeroVariance: w.ZeroVariance}
	spec.Buffer = runspec.BufferSpec{Depth: w.Depth, GroupsPerStep: w.Groups, MaxStaleness: int64(w.MaxStaleness),
		OnStale: w.OnStale, MaxBytes: w.MaxBytes}
	spec.Dispatch.MaxInFlightPerEngine = w.OwnLimit
	spec.Environment.Kind = "diplomacy"
	return &recorder{sim: s, views: map[int]steprecord.ServiceView{}, record: &runrecord.Record{
		Format: runrecord.Format, Version: runrecord.Version, Recorder: "requestsim",
		Run:   runstatus.RunStatus{Spec: spec, State: runstatus.RunRunning, StartedAt: origin},
		Steps: []steprecord.StepRecord{},
	}}
}

func (r *recorder) begin() {
	r.run("start")
	r.since = r.sums()
	if r.sim.w.SampleEvery > 0 {
		r.sampleNext(r.sums())
	}
}

func (r *recorder) emit(e telemetry.Event) {
	e.At = at(r.sim.now)
	r.keys++
	e.Key = fmt.Sprintf("k%d", r.keys)
	r.record.Events = append(r.record.Events, e)
}

func (r *recorder) run(change string) {
	r.emit(telemetry.Event{Run: r.record.Run.Spec.Name,
		Body: telemetry.RunChanged{State: runstatus.RunRunning, Change: change}})
}

func (r *recorder) engine(e *engine, state enginestate.EngineState, reason string) {
	r.emit(telemetry.Event{Engine: e.id, Body: telemetry.EngineChanged{State: state, Reason: reason}})
}

func (r *recorder) paced(e *engine) {
	text := ""
	if e.paced {
		text = "its output is less than half of the others' median"
	}
	r.emit(telemetry.Event{Engine: e.id, Body: telemetry.EnginePaced{Slow: text}})
}

func (r *recorder) loaded(e *engine, sec float64, version int) {
	v := rollout.PolicyVersion(version)
	r.emit(telemetry.Event{Run: r.record.Run.Spec.Name, Engine: e.id, Body: telemetry.AdapterLoaded{
		Adapter: v.Adapter(r.record.Run.Spec.Name), Version: v, Sec: sec}})
}

func (s *sim) noteDrop(g *group, code rollout.Code) {
	var phases []int
	for _, m := range g.games {
		if m.over {
			phases = append(phases, m.turn)
		}
	}
	s.record.emit(telemetry.Event{Run: s.record.record.Run.Spec.Name,
		Body: telemetry.GroupDropped{Seq: rollout.GroupSeq(g.seq), Code: code, Phases: phases}})
}

func (r *recorder) sums() fleetSums {
	r.sim.accountQueue()
	sums := fleetSums{at: r.sim.now, queuedSec: r.sim.queuedSec}
	for _, e := range r.sim.engines {
		e.account()
		sums.engines = append(sums.engines, e.seen)
	}
	return sums
}

// engine is the sums of an engine, which may have joined later.
func (f fleetSums) engine(i int) engineSums {
	if i < len(f.engines) {
		return f.engines[i]
	}
	return engineSums{}
}

// granted notes what the service sees when a batch is there, before it is taken out.
func (r *recorder) granted(k int) {
	s := r.sim
	v := steprecord.ServiceView{FirstAskedAt: at(s.asked), GrantedAt: at(s.now), Depth: s.w.Depth,
		GroupsPerStep: s.w.Groups,
		ReadyDepth:    float64(len(s.ready)) / float64(s.w.Groups), Version: rollout.PolicyVersion(s.version)}
	c := &v.AtClaim
	for _, g := range s.groups {
		switch {
		case g.gone:
			c.Dropped++
		case g.taken:
			c.Completed++
		case g.ready >= 0:
			c.Ready++
		case g.started >= 0:
			c.InFlight++
		default:
			c.Queued++
		}
	}
	c.Bytes = (c.Ready + c.InFlight/2) * s.groupBytes()
	now := r.sums()
	v.Fleet = now.view(r.since)
	if s.w.EngineRows {
		v.Engines = r.engines(now)
	}
	r.since = now
	r.views[k] = v
}

// view is the fleet over a window.
func (f fleetSums) view(since fleetSums) steprecord.FleetView {
	sec := f.at - since.at
	var up, busy, flying, limit, input, output float64
	for i := range f.engines {
		a, b := f.engines[i], since.engine(i)
		up += a.upSec - b.upSec
		busy += a.busySec - b.busySec
		flying += a.runningSec - b.runningSec + a.waitingSec - b.waitingSec
		limit += a.limitSec - b.limitSec
		input += a.input - b.input
		output += a.output - b.output
	}
	return steprecord.FleetView{WindowSec: sec, Engines: ratio(up, sec), BusyShare: ratio(busy, up),
		SlotShare: min(1, ratio(flying, limit)), InFlight: ratio(flying, up),
		QueuedRequests: ratio(f.queuedSec-since.queuedSec, sec), InputTPS: ratio(input, sec), OutputTPS: ratio(output, sec)}
}

// engines is what each engine did since the batch before.
func (r *recorder) engines(now fleetSums) []enginestate.EngineView {
	var views []enginestate.EngineView
	for i, e := range r.sim.engines {
		a, b := now.engines[i], r.since.engine(i)
		up := a.upSec - b.upSec
		bins := e.loads
		e.loads = map[int]*enginestate.LoadBin{}
		if up <= 0 {
			continue
		}
		v := enginestate.EngineView{Engine: e.id, WindowSec: up, Running: (a.runningSec - b.runningSec) / up,
			Waiting: (a.waitingSec - b.waitingSec) / up, Limit: (a.limitSec - b.limitSec) / up,
			InputTPS: (a.input - b.input) / up, OutputTPS: (a.output - b.output) / up,
			RequestSec: ratio(a.answered-b.answered, a.answers-b.answers), Requests: a.answers - b.answers,
			PrefixHitShare: ratio(a.cached-b.cached, a.input-b.input), KVUsage: (a.kvSec - b.kvSec) / up,
			Preemptions: a.preempted - b.preempted}
		v.InFlight = v.Running + v.Waiting
		for _, at := range slices.Sorted(maps.Keys(bins)) {
			v.Loads = append(v.Loads, *bins[at])
		}
		views = append(views, v)
	}
	return views
}

func ratio(a, b float64) float64 {
	if b <= 0 {
		return 0
	}
	return a / b
}

// sampleNext samples every engine, as the fleet's keeper does.
func (r *recorder) sampleNext(before fleetSums) {
	r.sim.after(r.sim.w.SampleEvery, func() {
		now := r.sums()
		for i, e := range r.sim.engines {
			if !e.up {
				continue
			}
			a, b := now.engines[i], before.engine(i)
			sec := now.at - before.at
			r.emit(telemetry.Event{Engine: e.id, Body: telemetry.EngineSample{Load: enginestate.EngineLoad{
				At: at(now.at), Running: float64(e.prompts.len() + e.outputs.len()), Waiting: float64(len(e.waiting)),
				KVUsage: ratio(a.kvSec-b.kvSec, sec), InputTPS: ratio(a.input-b.input, sec),
				OutputTPS: ratio(a.output-b.output, sec), WindowSec: sec,
				PrefixHitShare: ratio(a.cached-b.cached, a.input-b.input),
			}}})
		}
		r.sampleNext(now)
	})
}

// completed writes a step's record.
func (r *recorder) completed(k int, batch []*group, _ float64, phases map[steprecord.Phase]float64) {
	s := r.sim
	v := r.views[k]
	delete(r.views, k)
	v.CompletedAt = at(s.now)
	for i, g := range batch {
		stale := int64(v.Version) - int64(g.version)
		if i == 0 || stale < v.StalenessMin {
			v.StalenessMin = stale
		}
		v.StalenessMax = max(v.StalenessMax, stale)
		v.StalenessMean += float64(stale) / float64(len(batch))
		v.Groups = append(v.Groups, g.view())
		if g.flat {
			v.ZeroVarianceGroups++
		}
	}
	v.StalenessInFlightMean = v.StalenessMean
	v.Trajectories = len(batch) * s.w.Games * s.w.Agents
	wall := s.now - s.asked
	r.record.Steps = append(r.record.Steps, steprecord.StepRecord{Step: rollout.Step(k), Generation: 1, Done: true,
		Trainer: steprecord.StepReport{WallSec: wall, Phases: phases}, Service: v})
	wait := phases[steprecord.PhaseWait]
	if k == 0 {
		wall, wait = wall-wait, 0
	}
	r.walls, r.waits = append(r.walls, wall), append(r.waits, wait)
}

// throttle is what keeps the run below its depth.
func (s *sim) throttle() runstatus.Throttle {
	want := (s.claimed + s.w.Depth) * s.w.Groups
	switch {
	case s.wanted() >= min(want, s.w.Steps*s.w.Groups):
		return ""
	case s.w.MaxBytes > 0 && s.groupBytes()*int64(s.w.Depth*s.w.Groups) > s.w.MaxBytes:
		return runstatus.ThrottleBytes
	}
	return runstatus.ThrottleStaleness
}

func (g *group) view() steprecord.GroupView {
	v := steprecord.GroupView{Seq: rollout.GroupSeq(g.seq), MinVersion: rollout.PolicyVersion(g.version),
		ZeroVariance: g.flat}
	v.Times = rollout.GroupTimes{LaunchedAt: at(g.launched), StartedAt: at(g.started), ReadyAt: at(g.ready)}
	for _, m := range g.games {
		if m.ended == 0 { // cancelled
			continue
		}
		v.Usage = v.Usage.Add(m.usage)
		v.EpisodeSec = append(v.EpisodeSec, m.ended-m.begun)
		v.ModelSec, v.QueueSec = append(v.ModelSec, m.model), append(v.QueueSec, m.queue)
		v.EnvSec, v.Phases = append(v.EnvSec, m.env), append(v.Phases, m.turn)
	}
	return v
}

func (r *recorder) result() *Recorded {
	s := r.sim
	r.record.RecordedAt = at(s.now)
	spec := &r.record.Run.Spec // as operators have changed it
	spec.Buffer.Depth, spec.Buffer.MaxStaleness = s.w.Depth, int64(s.w.MaxStaleness)
	spec.Dispatch.MaxInFlightPerEngine = s.w.OwnLimit
	spec.Group.Samples, spec.Group.MinSamples = s.w.Games, s.w.Games
	r.record.Run.Throttle = s.throttle()
	r.record.Run.NextStep = rollout.Step(s.completed)
	r.record.Run.PolicyVersion = rollout.PolicyVersion(s.version)
	if s.completed >= s.w.Steps {
		r.record.Run.State, r.record.Run.EndedAt = runstatus.RunCompleted, at(s.now)
	}
	for _, e := range s.engines {
		state := enginestate.EngineReady
		if !e.up {
			state = enginestate.EngineLost
		}
		slow := ""
		if e.paced {
			slow = "its output is less than half of the others' median"
		}
		r.record.Engines = append(r.record.Engines, enginestate.Engine{ID: e.id, State: state, MaxInFlight: s.w.Slots,
			Slow: slow})
	}
	return &Recorded{r.record, r.walls, r.waits}
}
