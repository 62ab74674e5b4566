// Package connections connects a process of the service to Redis and Temporal, with Millrace's stores on top of them.
// Start reading at Open.
package connections

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/millrace/millrace/internal/control/runcontrol"
	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/engine/share/workerregistry"
	"github.com/millrace/millrace/internal/engine/tokenrates"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/kit/version"
	"github.com/millrace/millrace/internal/observe/otel"
	"github.com/millrace/millrace/internal/observe/prom/processmetrics"
	"github.com/millrace/millrace/internal/scaling/scaledfleet"
	"github.com/millrace/millrace/internal/store/buffer"
	store "github.com/millrace/millrace/internal/store/eventstore"
	"github.com/millrace/millrace/internal/store/mailbox"
	"github.com/millrace/millrace/internal/store/redisserver"
	"github.com/millrace/millrace/workflows"
)

// Set is the services behind a process, and Millrace's own parts on top of them.
type Set struct {
	Redis    redis.UniversalClient
	Buffer   *buffer.Store
	Registry scaledfleet.Registry
	Workers  *workerregistry.Registry
	Sampler  *fleet.Sampler
	Events   *store.Store
	Tokens   *tokenrates.Counts
	Mail     *mailbox.Box
	// Otel exports spans and metrics; nil: nothing is exported.
	Otel            *otel.Exporter
	TemporalMetrics *processmetrics.TemporalMetrics // of this process
	Control         runcontrol.Control
	Log             *slog.Logger
}

// Open connects a process to Redis, which must answer, and prepares the connection to Temporal, which need not: a
// server serves claims while Temporal is unavailable.
func Open(ctx context.Context, process string, cfg Config, logger *slog.Logger) (*Set, error) {
	rdb, err := openRedis(ctx, cfg.Redis.URL)
	if err != nil {
		return nil, err
	}
	if err := checkRedis(ctx, rdb, logger); err != nil {
		return nil, errors.Join(err, rdb.Close())
	}
	addresses, err := cfg.EngineURLs.Rules()
	if err != nil {
		return nil, fmt.Errorf("engine_urls: %w", err)
	}
	export := otel.Config{Ratio: cfg.OTel.TraceRatio, Service: process, Instance: instance(),
		Version: version.String()}
	export.Traces.On, export.Traces.Endpoint = cfg.OTel.Traces()
	export.Metrics.On, export.Metrics.Endpoint = cfg.OTel.Metrics()
	exporter, err := otel.Open(ctx, export, logger)
	if err != nil {
		return nil, err
	}
	deployment := workflows.Deployment(cfg.Temporal.TaskQueuePrefix)
	options, sdkMetrics := temporalOptions(cfg.Temporal, logger), processmetrics.NewTemporalMetrics()
	options.MetricsHandler = sdkMetrics.Handler()
	if tracing := exporter.Interceptor(deployment.GroupOf); tracing != nil {
		options.Interceptors = append(options.Interceptors, tracing)
	}
	temporal, err := client.NewLazyClient(options)
	if err != nil {
		return nil, fmt.Errorf("temporal at %s: %w", cfg.Temporal.Address, err)
	}
	b := &Set{
		Redis:    rdb,
		Registry: scaledfleet.Registry{Registry: fleet.NewRegistry(rdb, cfg.Redis.Prefix, time.Now)},
		Workers:  workerregistry.New(rdb, cfg.Redis.Prefix, time.Now),
		Sampler:  fleet.NewSampler(rdb, cfg.Redis.Prefix),
		Mail:     mailbox.New(rdb, cfg.Redis.Prefix),
		Tokens:   tokenrates.New(rdb, cfg.Redis.Prefix),
		Events:   store.New(rdb, cfg.Redis.Prefix, store.Limits{}),
		Log:      logger,

		Otel: exporter, TemporalMetrics: sdkMetrics,
	}
	b.Registry.Addresses = addresses
	b.Buffer = buffer.New(rdb, buffer.Options{
		Prefix: cfg.Redis.Prefix, RetainSteps: cfg.RetainSteps, Now: time.Now,
		WaitReplicas: cfg.Redis.WaitReplicas, WaitFor: cfg.Redis.WaitFor.Std(),
	})
	b.Control = runcontrol.New(&workflows.Client{
		Temporal: temporal, Namespace: cfg.Temporal.Namespace,
		Deployment: deployment, Page: cfg.PageURL,
		Attributes: &workflows.SearchAttributes{Temporal: temporal, Namespace: cfg.Temporal.Namespace, Log: logger},
	}, b.Buffer, b.Registry, b.Workers)
	return b, nil
}

// instance names this process among those of its kind.
func instance() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

// ErrNoAnswer is returned when a service that a process cannot begin without is not there.
var ErrNoAnswer = errors.New("does not answer")

// AwaitRedis waits, for a while, until the Redis at an address answers.
func AwaitRedis(ctx context.Context, url string) error {
	rdb, err := openRedis(ctx, url)
	if err != nil {
		return err
	}
	return rdb.Close()
}

func openRedis(ctx context.Context, url string) (redis.UniversalClient, error) {
	address, err := redisserver.Parse(url)
	if err != nil {
		return nil, fmt.Errorf("redis URL: %w", err)
	}
	rdb := address.Connect()
	ping := func(ctx context.Context) error { return rdb.Ping(ctx).Err() }
	if err := retry.Within(ctx, pingPatience, pingEvery, ping); err != nil {
		_ = rdb.Close() // it never connected
		return nil, fmt.Errorf("redis at %s %w: %w; %s", address, ErrNoAnswer, err, redisAdvice(err))
	}
	return rdb, nil
}

// redisAdvice is what to do about a Redis that does not answer. One in protected mode hangs up before it has said why.
func redisAdvice(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return "it hangs up: one without a password answers other hosts only with protected-mode no, and one with TLS only " +
			"rediss://"
	}
	return "start one, or check the address"
}

// checkRedis refuses a Redis that may delete what is written to it, and tells what a crash of it costs.
func checkRedis(ctx context.Context, rdb redis.UniversalClient, log *slog.Logger) error {
	found, err := redisserver.Check(ctx, rdb)
	for _, f := range found {
		log.Log(ctx, f.Level, f.Text)
	}
	return err
}

// temporalOptions is how to connect to Temporal: with an API key always over TLS, or the key could be read on its way.
func temporalOptions(cfg Temporal, logger *slog.Logger) client.Options {
	o := client.Options{HostPort: cfg.Address, Namespace: cfg.Namespace, Logger: log.NewStructuredLogger(logger)}
	// Messages are small, and both sides are short of processor time rather than of bandwidth.
	o.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	if key := cfg.APIKey.Reveal(); key != "" {
		o.Credentials = client.NewAPIKeyStaticCredentials(key)
	}
	if cfg.TLS || cfg.APIKey != "" {
		o.ConnectionOptions.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return o
}

// SilenceRedis keeps the Redis client from writing to stderr by itself, for the whole process; what goes wrong
// comes back as errors too. Only main may call it.
func SilenceRedis() { redis.SetLogger(silence{}) }

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// How long a process waits for Redis when it starts, and how long between two tries.
const (
	pingPatience = 10 * time.Second
	pingEvery    = 200 * time.Millisecond
)

// Close ends the connections.
func (b *Set) Close() {
	b.Otel.Close()
	b.Control.Temporal.Close()
	if err := b.Redis.Close(); err != nil {
		b.Log.Warn("close redis", "error", err)
	}
}
