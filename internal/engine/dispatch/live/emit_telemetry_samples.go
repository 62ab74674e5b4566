package live

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// sampled is the latest telemetry sample, from which the next one computes differences.
type sampled struct {
	at       time.Time
	runs     map[rollout.RunName]Tally
	rejected map[rollout.Code]int64
	idle     map[rollout.RunName]bool // runs whose last sample was all zero
}

// sample reports the window since the last sample: one event per run, and one of the whole under the empty run
// name. What stays all zero is reported once.
func (o *eventLoop) sample() {
	now := time.Now()
	window := now.Sub(o.sampled.at).Seconds()
	if window <= 0 {
		return
	}
	st := o.scheduler.Stats()
	next := sampled{
		at: now, runs: map[rollout.RunName]Tally{}, rejected: st.Rejected, idle: map[rollout.RunName]bool{},
	}
	whole := telemetry.DispatchSample{WindowSec: window, Queued: st.Queued, InFlight: map[rollout.EngineID]int{},
		Rejected: map[rollout.Code]int64{}}
	for _, e := range st.Engines {
		whole.InFlight[e.ID] = e.InFlight
	}
	for reason, n := range st.Rejected {
		if since := n - o.sampled.rejected[reason]; since > 0 {
			whole.Rejected[reason] = since
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.runs)) {
		t := o.runs[name]
		t.forget(now)
		tally, before := t.freeze(), o.sampled.runs[name]
		next.runs[name] = tally
		s := runSample(name, &st, window)
		s.InputTPS = float64(tally.Usage.InputTokens-before.Usage.InputTokens) / window
		s.OutputTPS = float64(tally.Usage.OutputTokens-before.Usage.OutputTokens) / window
		s.ByVersion = ratesByVersion(before.Work, tally.Work, window)
		whole.InputTPS += s.InputTPS
		whole.OutputTPS += s.OutputTPS
		o.emit(&next, name, s)
	}
	o.emit(&next, "", whole)
	o.sampled = next
}

// ratesByVersion is a run's tokens per second by version, of its work before and now; nil: it had none.
func ratesByVersion(before, now map[rollout.UsagePart]rollout.Usage,
	window float64) map[rollout.PolicyVersion]telemetry.TokenRate {
	var rates map[rollout.PolicyVersion]telemetry.TokenRate
	for p, usage := range now {
		in, out := usage.InputTokens-before[p].InputTokens, usage.OutputTokens-before[p].OutputTokens
		if in == 0 && out == 0 {
			continue
		}
		if rates == nil {
			rates = map[rollout.PolicyVersion]telemetry.TokenRate{}
		}
		r := rates[p.Version]
		r.InputTPS += float64(in) / window
		r.OutputTPS += float64(out) / window
		rates[p.Version] = r
	}
	return rates
}

// runSample is one run's part of st.
func runSample(name rollout.RunName, st *dispatch.Stats, window float64) telemetry.DispatchSample {
	s := telemetry.DispatchSample{WindowSec: window, InFlight: map[rollout.EngineID]int{}}
	for _, r := range st.Runs {
		if r.Run == name {
			s.Queued = r.Queued
		}
	}
	for _, e := range st.Engines {
		if n := e.Runs[name]; n > 0 {
			s.InFlight[e.ID] = n
		}
	}
	return s
}

func (o *eventLoop) emit(next *sampled, run rollout.RunName, s telemetry.DispatchSample) {
	inFlight := 0
	for _, n := range s.InFlight {
		inFlight += n
	}
	idle := s.Queued == 0 && inFlight == 0 && s.InputTPS == 0 && s.OutputTPS == 0 && len(s.Rejected) == 0
	next.idle[run] = idle
	if idle && o.sampled.idle[run] {
		return
	}
	o.d.cfg.Emit.Emit(telemetry.Event{
		At: next.at, Run: run, Body: s,
		Key: fmt.Sprintf("dispatch/%s/%s/%d", o.d.cfg.Worker, run, next.at.UnixNano()),
	})
}
