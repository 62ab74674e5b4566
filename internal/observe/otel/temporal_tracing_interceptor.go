package otel

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/interceptor"

	"github.com/millrace/millrace/internal/rollout"
)

// Interceptor carries the trace context through Temporal: a group's workflow hands on the span of its group, and an
// attempt at a game begins a span under it. Workflows make no spans of their own: they are replayed, and last for days.
// groupOf names the group of a workflow id, if it is a group's. Nil where no spans are exported.
func (e *Exporter) Interceptor(groupOf func(workflowID string) (rollout.GroupRef, bool)) interceptor.Interceptor {
	if !e.Traces() {
		return nil
	}
	return interceptor.NewTracingInterceptor(temporalTracer{exporter: e, groupOf: groupOf})
}

type temporalTracer struct {
	interceptor.BaseTracer
	exporter *Exporter
	groupOf  func(string) (rollout.GroupRef, bool)
}

// temporalSpan is a span, or, without one, the context of a span that another process reports.
type temporalSpan struct {
	context trace.SpanContext
	span    trace.Span
}

func (s *temporalSpan) Finish(o *interceptor.TracerFinishSpanOptions) {
	if s.span != nil {
		end(s.span, o.Error)
	}
}

// temporalKey finds a span in a workflow's context.
type temporalKey struct{}

func (t temporalTracer) Options() interceptor.TracerOptions {
	return interceptor.TracerOptions{
		SpanContextKey: temporalKey{}, HeaderKey: "_tracer-data", AllowInvalidParentSpans: true,
		DisableSignalTracing: true, DisableQueryTracing: true, DisableUpdateTracing: true,
	}
}

func (t temporalTracer) UnmarshalSpan(header map[string]string) (interceptor.TracerSpanRef, error) {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier(header))
	return &temporalSpan{context: trace.SpanContextFromContext(ctx)}, nil
}

func (t temporalTracer) MarshalSpan(span interceptor.TracerSpan) (map[string]string, error) {
	header := propagation.MapCarrier{}
	if s, ok := span.(*temporalSpan); ok && s.context.IsValid() {
		propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), s.context), header)
	}
	return header, nil
}

func (t temporalTracer) SpanFromContext(ctx context.Context) interceptor.TracerSpan {
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		return &temporalSpan{context: sc}
	}
	return nil
}

func (t temporalTracer) ContextWithSpan(ctx context.Context, span interceptor.TracerSpan) context.Context {
	switch s, ok := span.(*temporalSpan); {
	case !ok || !s.context.IsValid():
		return ctx
	case s.span != nil:
		return trace.ContextWithSpan(ctx, s.span)
	default:
		return trace.ContextWithRemoteSpanContext(ctx, s.context)
	}
}

// gameActivities are the activities that are attempts at games.
var gameActivities = map[string]string{"PlayEpisode": "game", "PlaySharedOpening": "shared opening"}

func (t temporalTracer) StartSpan(o *interceptor.TracerStartSpanOptions) (interceptor.TracerSpan, error) {
	span := &temporalSpan{}
	if parent, ok := o.Parent.(*temporalSpan); ok {
		span.context = parent.context
	}
	// The workflow's id tells the group, also of one that was begun before there were traces.
	if ref, is := t.groupOf(o.Tags["temporalWorkflowID"]); is {
		span.context = groupSpan(ref).context(inSample(ref, t.exporter.cfg.Ratio))
	}
	name, plays := gameActivities[o.Name]
	if !plays || o.Operation != "RunActivity" || !span.context.IsSampled() {
		return span, nil
	}
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), span.context)
	_, span.span = t.exporter.tracer.Start(ctx, name, trace.WithTimestamp(o.Time))
	span.context = span.span.SpanContext()
	return span, nil
}
