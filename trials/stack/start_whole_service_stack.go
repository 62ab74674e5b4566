// Package stack starts the whole service as child processes on loopback: redis-server, the Temporal dev server, API
// servers, workers and simulated engines, each on a free port. Its users may put something of their own between every
// two parts. It does not know what is tried with it. Start reading at Start.
package stack

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/kit/freeport"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/kit/supervise"
	"github.com/millrace/millrace/internal/process/temporalcli"
)

// Programs are the executables of a service, by their paths.
type Programs struct {
	Millrace string // what is tried
	Lab      string // millrace-lab, whose trainer remembers checkpoints
	Temporal string // the Temporal CLI
	Redis    string // redis-server
}

// Config says what to start. Without the Temporal CLI Redis is all that is started.
type Config struct {
	Programs
	RedisAt string // address of a Redis that runs already; then none is started
	// Replica gives Redis a replica, and a Sentinel through which everybody finds the master; a Cluster's masters get one
	// each, and no Sentinel. Nothing can be put before the nodes.
	Replica bool
	// Masters is how many share the slots of a Redis Cluster: nothing can be put between them and their callers. 0: one
	// Redis, which is no Cluster.
	Masters int
	Dir     string // databases, logs and configuration are written below it

	Service    string   // configuration of server and workers, YAML, without addresses
	Workers    int      // of the first deployment
	WorkerArgs []string // of `millrace worker`, besides configuration and addresses
	ServerArgs []string // of `millrace server`, likewise
	Engines    int      // that are in its fleet from the start
	EngineArgs []string // of `millrace engine simulate`, besides port and seed
	// Between is called with the name of a part and the address where it listens, and returns the address that its
	// callers are given. The names are server-redis, server-temporal, worker-0-redis, worker-0-temporal, ..., and
	// engine-0, ...; where there is a Sentinel, server-sentinel and so on instead of server-redis. Nil puts nothing
	// between.
	Between func(part, address string) (string, error)
	// Volatile keeps the databases in memory, for trials of what does not end: on a disk that others use, times are
	// the disk's.
	Volatile bool
	Fsync    string    // Redis' appendfsync where it writes its log; empty: always
	Log      io.Writer // deaths and new starts of the children, a line each
}

// onDisk is yes where databases are kept on disk.
func (c *Config) onDisk(yes, no string) string {
	if c.Volatile {
		return no
	}
	return yes
}

// Stack is the running service. Its methods may be called concurrently.
type Stack struct {
	Redis, Temporal, Server string   // addresses, with nothing between
	Engines                 []string // the same, of the engines in the fleet
	RedisURL                string   // with nothing between
	RedisNodes              []string // addresses of "redis" and, with a replica or more masters, of "redis-1" and so on
	Sentinel                string   // address; empty without a replica
	HTTP                    *http.Client

	cfg      Config
	firstBus int              // of the first master of a Cluster: the port where nodes talk to each other
	mu       sync.Mutex       // guards what follows
	group    *supervise.Group // its methods are for one goroutine at a time
}

// callTimeout bounds a call of the HTTP client that users of a stack share.
const callTimeout = 15 * time.Second

// Start starts everything and returns when the server is ready and the engines are in its fleet. The caller stops it.
func Start(ctx context.Context, cfg Config) (*Stack, error) {
	if cfg.Between == nil {
		cfg.Between = func(_, address string) (string, error) { return address, nil }
	}
	if cfg.Log == nil {
		cfg.Log = io.Discard
	}
	s := &Stack{cfg: cfg, HTTP: &http.Client{Timeout: callTimeout}}
	report := func(e supervise.Event) { fmt.Fprintf(cfg.Log, "  %s %s\n", e.Name, e.Text) }
	s.group = supervise.NewGroup(filepath.Join(cfg.Dir, "logs"), report)
	err := s.startStores(ctx)
	if err == nil && cfg.Temporal != "" {
		s.Server, err = s.Deploy(ctx, "", cfg.Service, cfg.Workers)
	}
	for i := 0; err == nil && i < cfg.Engines; i++ {
		err = s.startEngine(ctx, i)
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// Stop ends all children, the last started first.
func (s *Stack) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.group.Stop(nil)
}

func (s *Stack) startStores(ctx context.Context) error {
	if err := s.startRedis(); err != nil {
		return err
	}
	if s.cfg.Temporal != "" {
		if err := s.startTemporal(); err != nil {
			return err
		}
	}
	if err := s.awaitRedis(ctx); err != nil || s.cfg.Temporal == "" {
		return err
	}
	dial := func(context.Context) error {
		conn, err := net.DialTimeout("tcp", s.Temporal, time.Second)
		if err == nil {
			conn.Close()
		}
		return err
	}
	if err := Await(ctx, time.Minute, dial); err != nil {
		return fmt.Errorf("temporal does not answer: %w", err)
	}
	return nil
}

func (s *Stack) startTemporal() (err error) {
	if s.Temporal, err = freeport.Address(); err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(s.Temporal)
	return s.Spawn("temporal", false, s.cfg.Temporal, temporalcli.DevServer(port,
		"--headless", "--db-filename", s.cfg.onDisk(filepath.Join(s.cfg.Dir, "temporal.db"), ""))...)
}

// Deploy starts the server and the workers of a deployment on the stack's Redis and Temporal, and returns the
// server's address when it is ready. The children are called NAMEserver, NAMEworker-0, and so on.
func (s *Stack) Deploy(ctx context.Context, name, service string, workers int) (server string, err error) {
	file := filepath.Join(s.cfg.Dir, name+"service.yaml")
	if err := os.WriteFile(file, []byte(service), 0o644); err != nil {
		return "", err
	}
	part := func(name string) ([]string, error) {
		t, err := s.cfg.Between(name+"-temporal", s.Temporal)
		if err != nil {
			return nil, err
		}
		r, err := s.redisOf(name)
		return []string{"-c", file, "--redis", r, "--temporal", t}, err
	}
	if server, err = freeport.Address(); err != nil {
		return "", err
	}
	args, err := part(name + "server")
	if err != nil {
		return "", err
	}
	args = slices.Concat([]string{"server", "--listen", server}, args, s.cfg.ServerArgs)
	if err := s.Spawn(name+"server", false, s.cfg.Millrace, args...); err != nil {
		return "", err
	}
	for i := range workers {
		worker := fmt.Sprintf("%sworker-%d", name, i)
		if args, err = part(worker); err != nil {
			return "", err
		}
		args = slices.Concat([]string{"worker"}, args, s.cfg.WorkerArgs)
		if err := s.Spawn(worker, false, s.cfg.Millrace, args...); err != nil {
			return "", err
		}
	}
	ready := func(ctx context.Context) error { return s.get(ctx, "http://"+server+"/readyz") }
	if err := Await(ctx, time.Minute, ready); err != nil {
		return "", fmt.Errorf("%sserver is not ready: %w", name, err)
	}
	return server, nil
}

// Simulate starts a simulated engine and returns its address. It joins no fleet.
func (s *Stack) Simulate(name string, seed int) (address string, err error) {
	if address, err = freeport.Address(); err != nil {
		return "", err
	}
	_, port, _ := net.SplitHostPort(address)
	args := append([]string{"engine", "simulate", "--port", port, "--seed", fmt.Sprint(seed)}, s.cfg.EngineArgs...)
	return address, s.Spawn(name, false, s.cfg.Millrace, args...)
}

func (s *Stack) startEngine(ctx context.Context, i int) error {
	name := fmt.Sprintf("engine-%d", i)
	address, err := s.Simulate(name, i+1)
	if err != nil {
		return err
	}
	s.Engines = append(s.Engines, address)
	front, err := s.cfg.Between(name, address)
	if err != nil {
		return err
	}
	client, err := s.Client()
	if err != nil {
		return err
	}
	add := func(ctx context.Context) error {
		_, _, err := client.AddEngine(ctx, name, "http://"+front, 0)
		return err
	}
	if err := Await(ctx, 20*time.Second, add); err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	return nil
}

// Client calls the first deployment's server, with nothing between.
func (s *Stack) Client() (*apiclient.Client, error) {
	return apiclient.New("http://"+s.Server, "", s.HTTP)
}

// Spawn starts a child. It is started again when it ends, unless once is set and it ends well. Its output goes to
// logs/NAME.log.
func (s *Stack) Spawn(name string, once bool, path string, args ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.group.Start(supervise.Process{Name: name, Path: path, Args: args, Once: once,
		Env: []string{"MILLRACE_SPOOL_DIR=" + filepath.Join(s.cfg.Dir, "spool")}})
}

// Log opens a child's log for appending.
func (s *Stack) Log(name string) (*os.File, error) { return s.group.OpenLog(name) }

// End stops a child for good. A child of that name may be started again.
func (s *Stack) End(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.group.End(name)
}

// PID is the child's process id, 0 while it is dead.
func (s *Stack) PID(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.group.PID(name)
}

// Ends is how often the child has ended by itself.
func (s *Stack) Ends(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.group.Ends(name)
}

func (s *Stack) get(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := s.HTTP.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %d", url, resp.StatusCode)
	}
	return nil
}

// Await repeats f until it succeeds, and returns its last error when patience is over.
func Await(ctx context.Context, patience time.Duration, f func(context.Context) error) error {
	return retry.Within(ctx, patience, 100*time.Millisecond, f)
}
