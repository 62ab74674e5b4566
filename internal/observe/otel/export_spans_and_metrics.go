// Package otel exports what the service does by OTLP: traces of runs, down to the calls of engines, and the metrics
// that Prometheus sees. It does nothing unless an endpoint is configured; then a share of the groups is traced whole.
//
// A trace is a run: run, step, group, game, turn, engine call. The server that leads reports runs, steps and groups
// when they end; workers report games and what is below, live. Start reading at Exporter, then span_identities.go.
package otel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	prombridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	otelapi "go.opentelemetry.io/otel"

	"github.com/millrace/millrace/internal/kit/retry"
)

// Config is where telemetry goes. What it leaves out, the exporters take from the standard OTEL_* variables: headers,
// certificates, timeouts, compression.
type Config struct {
	Traces, Metrics Signal
	Ratio           float64 // of groups that are traced
	Service         string  // such as millrace-worker
	Instance        string  // names the process
	Version         string
	MetricsEvery    time.Duration // 0: 15 s
}

// Signal is whether traces, or metrics, are exported, and to which base address of an OTLP collector over HTTP, such as
// http://127.0.0.1:4318; empty: the exporter takes it from the environment.
type Signal struct {
	On       bool
	Endpoint string
}

// Exporter exports a process's spans and metrics. A nil Exporter exports nothing, at no cost.
type Exporter struct {
	cfg      Config
	provider *sdktrace.TracerProvider // nil: no traces
	tracer   trace.Tracer
	resource *resource.Resource
	shutdown []func(context.Context) error
}

// Open makes an exporter; nil when nothing is configured.
func Open(ctx context.Context, cfg Config, log *slog.Logger) (*Exporter, error) {
	if !cfg.Traces.On && !cfg.Metrics.On {
		return nil, nil
	}
	faults := &retry.Outage{Log: log, Down: "OpenTelemetry is not exported"}
	otelapi.SetErrorHandler(otelapi.ErrorHandlerFunc(func(err error) { faults.Note(time.Now(), err) }))
	own, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", cfg.Service), attribute.String("service.instance.id", cfg.Instance),
		attribute.String("service.version", cfg.Version),
	), resource.WithFromEnv(), resource.WithHost())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("describe this process to OpenTelemetry: %w", err)
	}
	e := &Exporter{cfg: cfg, resource: own}
	if !cfg.Traces.On {
		return e, nil
	}
	var to []otlptracehttp.Option
	if at := cfg.Traces.Endpoint; at != "" {
		to = append(to, otlptracehttp.WithEndpointURL(strings.TrimSuffix(at, "/")+"/v1/traces"))
	}
	exporter, err := otlptracehttp.New(ctx, to...)
	if err != nil {
		return nil, fmt.Errorf("export traces: %w", err)
	}
	e.provider = sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter), sdktrace.WithResource(own), sdktrace.WithIDGenerator(identities{}),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())), // groups are chosen by inSample
	)
	e.tracer = e.provider.Tracer("github.com/millrace/millrace", trace.WithSchemaURL(semconv.SchemaURL))
	log.Info("exporting traces", "groups", cfg.Ratio)
	return e, nil
}

// Metrics exports, every few seconds, what a Prometheus gatherer shows.
func (e *Exporter) Metrics(ctx context.Context, from prometheus.Gatherer) error {
	if e == nil || !e.cfg.Metrics.On {
		return nil
	}
	var to []otlpmetrichttp.Option
	if at := e.cfg.Metrics.Endpoint; at != "" {
		to = append(to, otlpmetrichttp.WithEndpointURL(strings.TrimSuffix(at, "/")+"/v1/metrics"))
	}
	exporter, err := otlpmetrichttp.New(ctx, to...)
	if err != nil {
		return fmt.Errorf("export metrics: %w", err)
	}
	every := e.cfg.MetricsEvery
	if every <= 0 {
		every = 15 * time.Second
	}
	reader := metric.NewPeriodicReader(exporter, metric.WithInterval(every),
		metric.WithProducer(prombridge.NewMetricProducer(prombridge.WithGatherer(from))))
	e.shutdown = append(e.shutdown,
		metric.NewMeterProvider(metric.WithResource(e.resource), metric.WithReader(reader)).Shutdown)
	return nil
}

// closePatience bounds how long a process waits, when it ends, for what it has still to export.
const closePatience = 3 * time.Second

// Close exports what is left.
func (e *Exporter) Close() {
	if e == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	if e.provider != nil {
		_ = e.provider.Shutdown(ctx) // the error handler has heard of it
	}
	for _, end := range e.shutdown {
		_ = end(ctx)
	}
}

// Traces reports whether spans are exported.
func (e *Exporter) Traces() bool { return e != nil && e.provider != nil }
