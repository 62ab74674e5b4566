package otel

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
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

// StartCall begins the span of one call of an engine, if its game is traced, and returns the function that ends it.
func (e *Exporter) StartCall(ctx context.Context, engine enginestate.Engine, req *rollout.Request) (
	context.Context, func(*rollout.Completion, error)) {
	if !e.Traces() || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, func(*rollout.Completion, error) {}
	}
	s := req.Sampling
	attrs := []attribute.KeyValue{
		attribute.String(genAIOperation, textCompletion), attribute.String(genAIProvider, providerVLLM),
		attribute.String(genAIConversation, req.Episode.TrajectoryID(req.Agent)),
		attribute.String(genAIRequestModel, req.Model), attribute.Int(genAIRequestMaxTokens, s.MaxTokens),
		attribute.Float64(genAIRequestTemperature, s.Temperature), attribute.Float64(genAIRequestTopP, s.TopP),
		attribute.Int64(genAIRequestSeed, req.Seed), attribute.String("millrace.engine", string(engine.ID)),
	}
	if u, err := url.Parse(engine.URL); err == nil {
		attrs = append(attrs, attribute.String(serverAddress, u.Hostname()))
		if port, err := strconv.Atoi(u.Port()); err == nil {
			attrs = append(attrs, attribute.Int(serverPort, port))
		}
	}
	ctx, span := e.tracer.Start(ctx, textCompletion+" "+req.Model, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attrs...))
	return ctx, func(answer *rollout.Completion, err error) {
		if err == nil {
			span.SetAttributes(
				attribute.Int(genAIUsageInputTokens, len(answer.PromptTokenIDs)),
				attribute.Int(genAIUsageOutputTokens, len(answer.TokenIDs)),
				attribute.String(genAIResponseModel, answer.Model),
				attribute.StringSlice(genAIResponseFinishReasons, []string{answer.FinishReason}),
			)
		}
		end(span, err)
	}
}

// end ends a span with what went wrong, by its code.
func end(span trace.Span, err error) {
	if err != nil {
		span.SetAttributes(attribute.String(errorType, string(rollout.CodeOf(err))))
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

// The names of the OpenTelemetry semantic conventions for generative AI that spans use, in one place: the conventions
// are still in development. All other names of spans and attributes are this service's own, under "millrace.".

// genAIConvention is the version of the conventions that these names are of.
const genAIConvention = "https://opentelemetry.io/schemas/1.41.0"

const (
	genAIOperation    = "gen_ai.operation.name"
	genAIProvider     = "gen_ai.provider.name"
	genAIConversation = "gen_ai.conversation.id"

	genAIRequestModel       = "gen_ai.request.model"
	genAIRequestMaxTokens   = "gen_ai.request.max_tokens"
	genAIRequestTemperature = "gen_ai.request.temperature"
	genAIRequestTopP        = "gen_ai.request.top_p"
	genAIRequestSeed        = "gen_ai.request.seed"

	genAIResponseModel         = "gen_ai.response.model"
	genAIResponseFinishReasons = "gen_ai.response.finish_reasons"
	genAIUsageInputTokens      = "gen_ai.usage.input_tokens"
	genAIUsageOutputTokens     = "gen_ai.usage.output_tokens"

	serverAddress = "server.address"
	serverPort    = "server.port"
	errorType     = "error.type"
)

// Values of the attributes above.
const (
	textCompletion = "text_completion"
	providerVLLM   = "vllm"
)
