package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"golang.org/x/sync/singleflight"

	"github.com/millrace/millrace/internal/face/access"
	"github.com/millrace/millrace/internal/kit/cache"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/rollout"
)

// Server is the HTTP API.
type Server struct {
	cfg             Config                 // as it was at the start
	inForce         atomic.Pointer[Config] // with what has changed since
	counted         atomic.Pointer[connections]
	deps            Deps
	auth            *authenticator
	api             huma.API
	handler         http.Handler
	waiters         waiters
	figures         cache.Cache[rollout.RunName, figures]
	hears           atomic.Bool // of every change of the buffer
	gates           gates
	unauthenticated rateLimiter // requests without a valid token, by address; a valid token is never held up by them
	refusals        rateLimiter // changes that were refused, by who asked for them
	diagnoses       cache.Cache[rollout.RunName, diagnosed]
	leases          cache.Cache[leaseKey, rollout.EpisodeRef] // of programs that play
	playing         cache.Cache[rollout.RunName, played]
	hints           chan rollout.RunName
	witnessing      singleflight.Group
	tellAgainAt     atomic.Int64 // when Temporal is told marks again, in Unix nanoseconds
	untold          retry.Outage
	acquainted      sync.Map // runs that were asked how far their accounts have come: rollout.RunName -> answered when
	downSince       sync.Map // parts that do not answer: their name -> time.Time
	comparing       sync.Map // when each run was last asked to compare its account: rollout.RunName -> time.Time

	stopping context.Context // done when whatever waits, and streams, must end
	stop     context.CancelFunc
}

// New makes a Server. It refuses a configuration that would let strangers in.
func New(cfg Config, deps Deps) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	deps.Panics.Log = deps.Log
	s := &Server{
		gates: newGates(cfg.Limits),
		cfg:   cfg, deps: deps, auth: newAuthenticator(cfg.Tokens, cfg.Access),
		hints: make(chan rollout.RunName, maxHints),
		untold: retry.Outage{Log: deps.Log, Up: "runs' workflows are told how far their accounts have come",
			Down: "a run's workflow cannot be told how far its account has come; it is told later"},
	}
	s.figures.Name, s.figures.Panics, s.figures.Timeout, s.figures.Most = "figures", deps.Panics, readyTimeout, keptRuns
	s.diagnoses.Name, s.diagnoses.Panics, s.diagnoses.Timeout = "diagnosis", deps.Panics, diagnosisTimeout
	s.diagnoses.Most = keptRuns
	s.leases.Name, s.leases.Panics, s.leases.Timeout, s.leases.Most = "lease", deps.Panics, readyTimeout, keptLeases
	s.playing.Name, s.playing.Panics, s.playing.Timeout, s.playing.Most = "spec", deps.Panics, readyTimeout, keptRuns
	s.inForce.Store(&cfg)
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.route()
	return s, nil
}

// Adjust takes up the bounds of another configuration while the server runs: sizes, waits, limits, the retention that
// is shown and the proxies that are trusted. Calls and connections that are there stay.
func (s *Server) Adjust(cfg Config) {
	next := s.cfg
	next.MaxBodyBytes, next.MaxWait, next.Retention = cfg.MaxBodyBytes, cfg.MaxWait, cfg.Retention
	next.Limits, next.TrustedProxies = cfg.Limits, cfg.TrustedProxies
	s.inForce.Store(&next)
	s.gates.resize(next.Limits)
	if counted := s.counted.Load(); counted != nil {
		counted.resize(next.Limits)
	}
}

// bounds is the configuration whose sizes, waits, limits and proxies are in force.
func (s *Server) bounds() *Config { return s.inForce.Load() }

// Handler is the whole API, middleware included. Hints to workflows only flow while Serve runs.
func (s *Server) Handler() http.Handler { return s.handler }

// Front has a handler answer before the API, such as the operator's page, which hands on what is the API's. It is to be
// called before Serve.
func (s *Server) Front(wrap func(api http.Handler) http.Handler) { s.handler = wrap(s.handler) }

// Grant is the grant of a token's holder. refusal says why the holder is unknown.
func (s *Server) Grant(token access.Hash) (g access.Grant, refusal string) {
	return s.auth.holder(token, s.deps.Now())
}

// keptRuns is of how many runs figures and diagnoses are kept.
const keptRuns = 128

// Timeouts of connections. There is no total timeout for a request: a long poll and a publication have their own.
const (
	headerTimeout   = 5 * time.Second
	idleTimeout     = 2 * time.Minute
	shutdownTimeout = 10 * time.Second
	maxHeaderBytes  = 64 << 10
)

// Serve answers requests on l until ctx is done, then ends long polls, publications that wait and streams at once, lets
// other requests finish, and returns nil. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	if !s.auth.required() && !loopback(l.Addr().String()) {
		return errors.Join(fmt.Errorf("api: %s can be reached from other machines, and there is no token",
			l.Addr()), l.Close())
	}
	if s.cfg.TLS == nil && !loopback(l.Addr().String()) {
		s.deps.Log.Warn("tokens and batches can be read on their way: the API speaks plain HTTP on an address that other "+
			"machines can reach; "+
			"set tls.cert_file and tls.key_file, or leave TLS to a proxy in front", "address", l.Addr().String())
	}
	hints, stopHints := context.WithCancel(context.WithoutCancel(ctx))
	var background sync.WaitGroup
	background.Go(func() { s.sendHints(hints) })
	background.Go(func() { s.tellMarks(hints) })
	background.Go(func() { s.followChanges(hints) })
	defer background.Wait()
	defer stopHints()

	counted := newConnections(l, s.bounds().Limits, s.deps.OnRefusal)
	s.counted.Store(counted)
	return s.answerOn(ctx, counted, s.handler)
}

// ServeVLLM answers on l as Serve does below /v1/runs/RUN/vllm, for a run, until ctx is done. It closes l.
func (s *Server) ServeVLLM(ctx context.Context, l net.Listener, run rollout.RunName) error {
	below := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inside := r.Clone(r.Context())
		inside.URL.Path, inside.URL.RawPath = runsPath+string(run)+"/vllm"+r.URL.Path, ""
		s.handler.ServeHTTP(w, inside)
	})
	return s.answerOn(ctx, newConnections(l, s.bounds().Limits, s.deps.OnRefusal), below)
}

// answerOn answers the requests of connections until ctx is done.
func (s *Server) answerOn(ctx context.Context, counted *connections, handler http.Handler) error {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true) // Deadlines and limits are by connection, which HTTP/2 would share.
	server := &http.Server{
		Protocols: protocols,
		Handler:   handler, ConnContext: withConnection, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		ErrorLog:       slog.NewLogLogger(s.deps.Log.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() {
		if server.TLSConfig = s.cfg.TLS; server.TLSConfig != nil {
			failed <- server.ServeTLS(counted, "", "")
			return
		}
		failed <- server.Serve(counted)
	}()
	select {
	case err := <-failed:
		s.Stop()
		return fmt.Errorf("serve http: %w", err)
	case <-ctx.Done():
	}
	s.Stop()
	defer func() { <-failed }()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		return errors.Join(fmt.Errorf("shut http down: %w", err), server.Close())
	}
	return nil
}

// Stop ends whatever waits, and streams, at once; it may be called more than once. Serve calls it by itself.
func (s *Server) Stop() { s.stop() }

// untilStopped is a context for what may wait longer than a stop lasts: it is done when the server stops, too.
func (s *Server) untilStopped(ctx context.Context) (waiting context.Context, leave func()) {
	waiting, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(s.stopping, cancel)
	return waiting, func() { unhook(); cancel() }
}

// route registers every operation and wraps the whole in middleware.
func (s *Server) route() {
	mux := http.NewServeMux()
	s.api = humago.New(mux, s.humaConfig())
	s.api.UseMiddleware(s.audit, s.authorize, s.pass)
	s.registerOperations()
	s.registerHealth(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.unmatched(mux, w, r) })
	s.handler = s.middleware(mux)
}
