package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// Config is the settings of the server.
type Config struct {
	// Listen is the address that the server will listen on. Anything but a loopback address needs Tokens.
	Listen string
	// Tokens are the bearer tokens accepted; none means that everybody on this machine may do everything.
	Tokens []string
	// MaxBodyBytes bounds a request's body; 0 means DefaultMaxBodyBytes.
	MaxBodyBytes int64
	// MaxWait bounds a long poll, whatever the client asks for; 0 means DefaultMaxWait.
	MaxWait time.Duration
	// Version is the service's own version, shown in the OpenAPI document.
	Version string
}

// Defaults of Config.
const (
	DefaultMaxBodyBytes = 1 << 20
	DefaultMaxWait      = 60 * time.Second
)

// minTokenBytes keeps tokens from being guessed.
const minTokenBytes = 16

// Validate reports why a server with this configuration must not start.
func (c Config) Validate() error {
	var faults []error
	if len(c.Tokens) == 0 && !loopback(c.Listen) {
		faults = append(faults, fmt.Errorf("listen address %q can be reached from other machines, and there is no token: set MILLRACE_TOKENS, or listen on 127.0.0.1", c.Listen))
	}
	for i, token := range c.Tokens {
		if len(token) < minTokenBytes || strings.TrimSpace(token) != token {
			faults = append(faults, fmt.Errorf("token %d: use at least %d characters without spaces around, such as the output of: openssl rand -hex 24", i+1, minTokenBytes))
		}
	}
	if c.MaxBodyBytes < 0 {
		faults = append(faults, fmt.Errorf("max body bytes %d: 0 or more", c.MaxBodyBytes))
	}
	if c.MaxWait < 0 {
		faults = append(faults, fmt.Errorf("max wait %v: 0 or more", c.MaxWait))
	}
	return errors.Join(faults...)
}

// loopback tells whether only this machine can reach the address. An empty host means every interface.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	return loopbackHost(host)
}

func loopbackHost(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// Server is the HTTP API.
type Server struct {
	cfg     Config
	deps    Deps
	auth    *authenticator
	api     huma.API
	handler http.Handler
	waiters waiters
	notices chan notice

	stopping chan struct{} // closed when long polls and streams must end
	stopOnce sync.Once
}

// New makes a Server. It refuses a configuration that would let strangers in.
func New(cfg Config, deps Deps) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	if deps.Control == nil || deps.Store == nil || deps.Fleet == nil || deps.Events == nil || deps.ReadSpec == nil {
		return nil, errors.New("api: Control, Store, Fleet, Events and ReadSpec are needed")
	}
	if cfg.MaxBodyBytes == 0 {
		cfg.MaxBodyBytes = DefaultMaxBodyBytes
	}
	if cfg.MaxWait == 0 {
		cfg.MaxWait = DefaultMaxWait
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		cfg: cfg, deps: deps, auth: newAuthenticator(cfg.Tokens),
		notices: make(chan notice, noticeBound), stopping: make(chan struct{}),
	}
	s.route()
	return s, nil
}

// Handler is the whole API, middleware included. Hints to workflows only flow while Serve runs.
func (s *Server) Handler() http.Handler { return s.handler }

// Timeouts of connections. There is no total timeout for a request: a long poll and a publication have their own.
const (
	headerTimeout   = 10 * time.Second
	idleTimeout     = 2 * time.Minute
	shutdownTimeout = 10 * time.Second
	maxHeaderBytes  = 64 << 10
)

// Serve answers requests on l until ctx is done, then ends long polls and streams at once, lets other
// requests finish, and returns nil. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	if len(s.cfg.Tokens) == 0 && !loopback(l.Addr().String()) {
		return errors.Join(fmt.Errorf("api: %s can be reached from other machines, and there is no token", l.Addr()), l.Close())
	}
	server := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(s.deps.Log.Handler(), slog.LevelWarn),
	}
	hints, stopHints := context.WithCancel(context.WithoutCancel(ctx))
	var background sync.WaitGroup
	background.Go(func() { s.sendNotices(hints) })
	defer background.Wait()
	defer stopHints()

	failed := make(chan error, 1)
	background.Go(func() { failed <- server.Serve(l) })
	select {
	case err := <-failed:
		s.Stop()
		return fmt.Errorf("serve http: %w", err)
	case <-ctx.Done():
	}
	s.Stop()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		return errors.Join(fmt.Errorf("shut http down: %w", err), server.Close())
	}
	return nil
}

// Stop ends long polls and streams at once; it may be called more than once. Serve calls it by itself.
func (s *Server) Stop() { s.stopOnce.Do(func() { close(s.stopping) }) }

// route registers every operation and wraps the whole in middleware.
func (s *Server) route() {
	mux := http.NewServeMux()
	s.api = humago.New(mux, s.humaConfig())
	s.registerRuns()
	s.registerTrainer()
	s.registerPolicies()
	s.registerEngines()
	s.registerInsight()
	s.registerHealth(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.unmatched(mux, w, r) })
	s.handler = s.middleware(mux)
}
