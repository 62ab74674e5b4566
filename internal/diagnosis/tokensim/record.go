package tokensim

import (
	"maps"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
)

// granted notes what the service sees before a batch is taken out.
func (r *Run) granted(k int) {
	ready := r.readyGroups()
	v := rollout.ServiceView{FirstAskedAt: r.time(r.asked), GrantedAt: r.time(r.now), Depth: r.Depth,
		GroupsPerStep: r.Groups, ReadyDepth: float64(len(ready)) / float64(r.Groups),
		Version: rollout.PolicyVersion(r.version)}
	for _, g := range r.groups {
		switch {
		case g.taken:
			v.AtClaim.Completed++
		case g.ready >= 0:
			v.AtClaim.Ready++
		case g.started >= 0:
			v.AtClaim.InFlight++
		default:
			v.AtClaim.Queued++
		}
	}
	r.accountQueue()
	f := &v.Fleet
	f.WindowSec = r.now - r.since
	var up, busy, flying float64
	for i, e := range r.engines {
		e.account()
		a, b := e.sums, r.last[i]
		r.last[i] = a
		sec := a.up - b.up
		bins := e.bins
		e.bins = map[int]*rollout.LoadBin{}
		if sec <= 0 {
			continue
		}
		up, busy, flying = up+sec, busy+a.busy-b.busy, flying+a.running+a.waiting-b.running-b.waiting
		read, made := a.read-b.read+a.cached-b.cached, a.made-b.made
		f.InputTPS, f.OutputTPS = f.InputTPS+read/f.WindowSec, f.OutputTPS+made/f.WindowSec
		one := rollout.EngineView{Engine: e.id, WindowSec: sec, Running: (a.running - b.running) / sec,
			Waiting: (a.waiting - b.waiting) / sec, Limit: float64(r.Slots), InputTPS: read / sec, OutputTPS: made / sec,
			Requests: a.answers - b.answers, KVUsage: (a.kv - b.kv) / sec, Preemptions: a.preempted - b.preempted}
		one.InFlight = one.Running + one.Waiting
		if one.Requests > 0 {
			one.RequestSec = (a.answeredSec - b.answeredSec) / one.Requests
		}
		if read > 0 {
			one.PrefixHitShare = (a.cached - b.cached) / read
		}
		for _, at := range slices.Sorted(maps.Keys(bins)) {
			one.Loads = append(one.Loads, *bins[at])
		}
		v.Engines = append(v.Engines, one)
	}
	if f.WindowSec > 0 {
		f.Engines = up / f.WindowSec
		f.QueuedRequests = (r.queued - r.qlast) / f.WindowSec
	}
	if up > 0 {
		f.BusyShare, f.InFlight = busy/up, flying/up
		f.SlotShare = f.InFlight / float64(r.Slots)
	}
	r.since, r.qlast = r.now, r.queued
	r.views[k] = v
}

// completed writes a step's record.
func (r *Run) completed(k int, batch []*group, phases map[rollout.Phase]float64) {
	v := r.views[k]
	v.CompletedAt = r.time(r.now)
	for _, g := range batch {
		one := rollout.GroupView{Seq: rollout.GroupSeq(g.seq), MinVersion: rollout.PolicyVersion(g.version)}
		one.Times = rollout.GroupTimes{LaunchedAt: r.time(g.launched), StartedAt: r.time(g.started), ReadyAt: r.time(g.ready)}
		for _, m := range g.games {
			one.Usage = one.Usage.Add(m.usage)
			if m.ended == 0 { // cancelled
				continue
			}
			one.EpisodeSec = append(one.EpisodeSec, m.ended-m.begun)
			one.ModelSec, one.QueueSec = append(one.ModelSec, m.model), append(one.QueueSec, m.waited)
			one.EnvSec, one.Phases = append(one.EnvSec, m.envSecs), append(one.Phases, m.turn)
		}
		v.StalenessMax = max(v.StalenessMax, int64(v.Version)-int64(one.MinVersion))
		v.Groups = append(v.Groups, one)
	}
	r.input.Records = append(r.input.Records, rollout.StepRecord{Step: rollout.Step(k), Generation: 1, Done: true,
		Trainer: rollout.StepReport{WallSec: r.now - r.asked, Phases: phases}, Service: v})
}

// finishInput is the spec, as operators have left it.
func (r *Run) finishInput() {
	s := &r.input.Spec
	s.Name, s.Model, s.Steps, s.Seed = "run", "base", 100_000, int64(r.Seed)
	s.Group = rollout.GroupSpec{Samples: r.Games, MinSamples: r.Need}
	s.Buffer = rollout.BufferSpec{Depth: r.Depth, GroupsPerStep: r.Groups, MaxStaleness: int64(r.Depth),
		OnStale: rollout.KeepStale}
	s.Dispatch.MaxInFlightPerEngine = r.OwnLimit
	s.Environment.Kind = "diplomacy"
}
