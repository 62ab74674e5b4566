package otel

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// RunSpans makes spans of the events of runs: of a run when it is over, and of a step, with its groups, when it is
// completed. Only one server of a deployment is to feed it.
type RunSpans struct {
	exporter *Exporter
	mu       sync.Mutex
	began    map[rollout.RunName]time.Time
}

var _ telemetry.Emitter = (*RunSpans)(nil)

// RunSpans makes spans of the events that it is given.
func (e *Exporter) RunSpans() *RunSpans {
	return &RunSpans{exporter: e, began: map[rollout.RunName]time.Time{}}
}

// Began says when a run began.
func (s *RunSpans) Began(run rollout.RunName, at time.Time) {
	if !s.exporter.Traces() || at.IsZero() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began[run] = at
}

// Forget forgets when a run began that is no longer followed: its end was another server's to tell.
func (s *RunSpans) Forget(run rollout.RunName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.began, run)
}

// Emit makes spans of an event, if it is the end of something that has one.
func (s *RunSpans) Emit(e telemetry.Event) {
	if !s.exporter.Traces() {
		return
	}
	switch b := e.Body.(type) {
	case telemetry.RunChanged:
		if b.State.Over() {
			s.run(e.Run, b, e.At)
		}
	case telemetry.StepCompleted:
		s.step(e.Run, &b.Record)
	case telemetry.GroupDropped:
		ref := rollout.GroupRef{Run: e.Run, Seq: b.Seq}
		if inSample(ref, s.exporter.cfg.Ratio) {
			span := s.start("group", groupSpan(ref), runSpan(e.Run), e.At, attribute.Int64("millrace.group", int64(b.Seq)))
			span.SetStatus(codes.Error, "dropped: "+string(b.Code))
			span.End(trace.WithTimestamp(e.At))
		}
	case telemetry.AdapterChanged, telemetry.AdapterLoaded, telemetry.AlarmChanged, telemetry.Audit,
		telemetry.BatchClaimed, telemetry.BreakerChanged, telemetry.BufferLevel, telemetry.Diagnosed,
		telemetry.DispatchSample, telemetry.EngineChanged, telemetry.EnginePaced, telemetry.EngineSample,
		telemetry.EpisodeFailed, telemetry.EpisodeFinished, telemetry.FleetMeasured, telemetry.FleetScaled,
		telemetry.GroupReady, telemetry.PolicyPublished, telemetry.ProviderChanged,
		telemetry.RewardVarianceChanged, telemetry.SinkChanged, telemetry.TokenRates:
		// they end nothing that has a span here
	}
}

func (s *RunSpans) run(run rollout.RunName, b telemetry.RunChanged, at time.Time) {
	s.mu.Lock()
	began, known := s.began[run]
	delete(s.began, run)
	s.mu.Unlock()
	if !known {
		began = at
	}
	span := s.start("run "+string(run), runSpan(run), identity{}, began, attribute.String("millrace.run", string(run)),
		attribute.String("millrace.run.state", string(b.State)))
	if b.State == runstatus.RunFailed {
		span.SetStatus(codes.Error, b.Reason)
	}
	span.End(trace.WithTimestamp(at))
}

// step makes the span of a step, from the moment at which its trainer asked for its batch, and those of its groups,
// which began long before.
func (s *RunSpans) step(run rollout.RunName, r *steprecord.StepRecord) {
	v := &r.Service
	began := v.FirstAskedAt
	if wall := r.Trainer.WallSec; wall > 0 && !v.CompletedAt.IsZero() {
		began = v.CompletedAt.Add(-time.Duration(wall * float64(time.Second)))
	}
	id := stepSpan(run, r.Step)
	span := s.start("step", id, runSpan(run), began,
		attribute.Int64("millrace.step", int64(r.Step)), attribute.Float64("millrace.step.wait_s", r.WaitSec()),
		attribute.Int64("millrace.policy_version", int64(v.Version)), attribute.Int("millrace.step.groups", len(v.Groups)))
	span.End(trace.WithTimestamp(v.CompletedAt))
	for i := range v.Groups {
		g := &v.Groups[i]
		ref := rollout.GroupRef{Run: run, Seq: g.Seq}
		if !inSample(ref, s.exporter.cfg.Ratio) || g.Times.LaunchedAt.IsZero() || g.Times.ReadyAt.IsZero() {
			continue
		}
		s.start("group", groupSpan(ref), id, g.Times.LaunchedAt,
			attribute.Int64("millrace.group", int64(g.Seq)),
			attribute.Int64("millrace.policy_version", int64(g.MinVersion)),
			attribute.Int("millrace.group.games", len(g.EpisodeSec)),
			semconv.GenAIUsageInputTokens(int(g.Usage.InputTokens)),
			semconv.GenAIUsageOutputTokens(int(g.Usage.OutputTokens)),
		).End(trace.WithTimestamp(g.Times.ReadyAt))
	}
}

// start begins a span of a given identity under a parent; the zero parent is none.
func (s *RunSpans) start(name string, id, parent identity, at time.Time, attrs ...attribute.KeyValue) trace.Span {
	ctx := context.WithValue(context.Background(), wanted{}, id)
	if parent != (identity{}) {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent.context(true))
	}
	_, span := s.exporter.tracer.Start(ctx, name, trace.WithTimestamp(at), trace.WithAttributes(attrs...))
	return span
}
