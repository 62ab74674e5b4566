package otel

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// DescribeGame says which game the span of a context is of.
func DescribeGame(ctx context.Context, ref rollout.EpisodeRef, version rollout.PolicyVersion) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(
		attribute.String("millrace.run", string(ref.Run)), attribute.Int64("millrace.group", int64(ref.Seq)),
		attribute.Int("millrace.game", ref.Sample), attribute.Int64("millrace.policy_version", int64(version)))
}

// InGroup is a context for a group's work: a child of the group's span, which another process may report.
func (e *Exporter) InGroup(ctx context.Context, ref rollout.GroupRef) context.Context {
	if !e.Traces() {
		return ctx
	}
	return trace.ContextWithRemoteSpanContext(ctx, groupSpan(ref).context(inSample(ref, e.cfg.Ratio)))
}

// Policy is who answers requests.
type Policy interface {
	Complete(ctx context.Context, req rollout.Request) (rollout.Completion, error)
}

// tracedPolicy makes a span of each turn of a game that is traced.
type tracedPolicy struct {
	Policy
	exporter *Exporter
}

// TracePolicy makes a span of each turn that p is asked for.
func (e *Exporter) TracePolicy(p Policy) Policy {
	if !e.Traces() {
		return p
	}
	return tracedPolicy{p, e}
}

func (p tracedPolicy) Complete(ctx context.Context, req rollout.Request) (rollout.Completion, error) {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return p.Policy.Complete(ctx, req)
	}
	ctx, span := p.exporter.tracer.Start(ctx, "turn", trace.WithAttributes(
		attribute.String("millrace.request", req.ID), attribute.String("millrace.agent", req.Agent),
		attribute.String("millrace.phase", req.Phase), attribute.Int64("millrace.policy_version", int64(req.Version)),
	))
	answer, err := p.Policy.Complete(ctx, req)
	if err == nil {
		span.SetAttributes(attribute.Float64("millrace.queue_s", answer.Timing.QueueSec),
			attribute.Float64("millrace.exec_s", answer.Timing.ExecSec),
			attribute.Int("millrace.attempts", answer.Timing.Attempts))
	}
	end(span, err)
	return answer, err
}

// StartCall begins the span of one call of an engine, if its game is traced, and returns the function that ends it. Its
// attributes are named by the OpenTelemetry conventions for generative AI, which are still in development; those of
// other spans are this service's own, under "millrace.".
func (e *Exporter) StartCall(ctx context.Context, engine enginestate.Engine, req *rollout.Request) (
	context.Context, func(*rollout.Completion, error)) {
	if !e.Traces() || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, func(*rollout.Completion, error) {}
	}
	s := req.Sampling
	attrs := []attribute.KeyValue{
		semconv.GenAIOperationNameTextCompletion, semconv.GenAIProviderNameKey.String("vllm"),
		semconv.GenAIConversationID(req.Episode.TrajectoryID(req.Agent)),
		semconv.GenAIRequestModel(req.Model), semconv.GenAIRequestMaxTokens(s.MaxTokens),
		semconv.GenAIRequestTemperature(s.Temperature), semconv.GenAIRequestTopP(s.TopP),
		semconv.GenAIRequestSeed(int(req.Seed)), attribute.String("millrace.engine", string(engine.ID)),
	}
	if u, err := url.Parse(engine.URL); err == nil {
		attrs = append(attrs, semconv.ServerAddress(u.Hostname()))
		if port, err := strconv.Atoi(u.Port()); err == nil {
			attrs = append(attrs, semconv.ServerPort(port))
		}
	}
	ctx, span := e.tracer.Start(ctx, "text_completion "+req.Model, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attrs...))
	return ctx, func(answer *rollout.Completion, err error) {
		if err == nil {
			span.SetAttributes(
				semconv.GenAIUsageInputTokens(len(answer.PromptTokenIDs)),
				semconv.GenAIUsageOutputTokens(len(answer.TokenIDs)),
				semconv.GenAIResponseModel(answer.Model),
				semconv.GenAIResponseFinishReasons(answer.FinishReason),
			)
		}
		end(span, err)
	}
}

// end ends a span with what went wrong, by its code.
func end(span trace.Span, err error) {
	if err != nil {
		span.SetAttributes(semconv.ErrorTypeKey.String(string(rollout.CodeOf(err))))
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// Headers tells an engine which span its call belongs to, by the header traceparent.
func (e *Exporter) Headers(ctx context.Context, h http.Header) {
	if e.Traces() {
		propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(h))
	}
}
