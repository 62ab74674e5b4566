package crashtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/buffer"
	"github.com/millrace/millrace/internal/cli"
	"github.com/millrace/millrace/internal/supervise"
)

// stack is the whole service as child processes, with a link of ours between every two parts.
type stack struct {
	cfg      Config
	group    *supervise.Group
	mu       sync.Mutex // guards group, whose methods are for one goroutine at a time
	recorder *recorder
	logs     []io.Closer
	strays   []*stray // successors of stopped trainers, outside the group: nobody starts them again

	temporal, redis, server string // real addresses
	links                   map[string]*link
	rdb                     *redis.Client // ours, not through a link
	store                   *buffer.Store
	http                    *http.Client
}

const prefix = "chaos" // of our keys in Redis

func startStack(ctx context.Context, cfg Config) (*stack, error) {
	s := &stack{cfg: cfg, recorder: newRecorder(), links: map[string]*link{}, http: &http.Client{Timeout: 15 * time.Second}}
	s.group = supervise.NewGroup(func(e supervise.Event) { s.say("  %s %s", e.Name, e.Text) })
	for _, dir := range []string{"logs", "redis", "adapters", "journals", "events", "checkpoints"} {
		if err := os.MkdirAll(filepath.Join(cfg.Dir, dir), 0o755); err != nil {
			return nil, err
		}
	}
	for _, step := range []func(context.Context) error{s.startStores, s.startService, s.startEngines} {
		if err := step(ctx); err != nil {
			s.stop()
			return nil, err
		}
	}
	return s, nil
}

func (s *stack) say(format string, args ...any) {
	fmt.Fprintf(s.cfg.Log, format+"\n", args...) // a log that cannot be written stops nothing
}

func (s *stack) startStores(ctx context.Context) error {
	var err error
	if s.redis, err = freeAddress(); err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(s.redis)
	err = s.spawn("redis", s.cfg.Redis, "--port", port, "--bind", "127.0.0.1", "--dir", filepath.Join(s.cfg.Dir, "redis"),
		"--appendonly", "yes", "--appendfsync", "always", "--save", "", "--maxmemory-policy", "noeviction")
	if err != nil {
		return err
	}
	s.rdb = redis.NewClient(&redis.Options{Addr: s.redis, DialTimeout: time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second, MaxRetries: -1})
	s.store = buffer.New(s.rdb, buffer.Options{Prefix: prefix})
	if s.temporal, err = freeAddress(); err != nil {
		return err
	}
	_, port, _ = net.SplitHostPort(s.temporal)
	err = s.spawn("temporal", s.cfg.Temporal, "server", "start-dev", "--ip", "127.0.0.1", "--port", port, "--headless",
		"--log-level", "error", "--db-filename", filepath.Join(s.cfg.Dir, "temporal.db"))
	if err != nil {
		return err
	}
	if err := await(ctx, time.Minute, s.store.Ping); err != nil {
		return fmt.Errorf("redis does not answer: %w", err)
	}
	dial := func(context.Context) error {
		conn, err := net.DialTimeout("tcp", s.temporal, time.Second)
		if err == nil {
			conn.Close()
		}
		return err
	}
	if err := await(ctx, time.Minute, dial); err != nil {
		return fmt.Errorf("temporal does not answer: %w", err)
	}
	return nil
}

// configuration is that of server and workers. Every batch of a run is kept, so that it can be claimed again at the end.
const configuration = "redis: {prefix: " + prefix + "}\nretain_steps: 1000\n"

func (s *stack) startService(ctx context.Context) error {
	file := filepath.Join(s.cfg.Dir, "service.yaml")
	if err := os.WriteFile(file, []byte(configuration), 0o644); err != nil {
		return err
	}
	part := func(name string) ([]string, error) {
		r, err1 := s.link(name+"-redis", s.redis)
		t, err2 := s.link(name+"-temporal", s.temporal)
		return []string{"-c", file, "--redis", "redis://" + r + "/0", "--temporal", t}, errors.Join(err1, err2)
	}
	var err error
	if s.server, err = freeAddress(); err != nil {
		return err
	}
	if _, err := s.link("trainer-server", s.server); err != nil {
		return err
	}
	args, err := part("server")
	if err != nil {
		return err
	}
	if err := s.spawn("server", s.cfg.Millrace, append([]string{"server", "--listen", s.server}, args...)...); err != nil {
		return err
	}
	for i := range workers {
		name := fmt.Sprintf("worker-%d", i)
		if args, err = part(name); err != nil {
			return err
		}
		if err := s.spawn(name, s.cfg.Millrace, append([]string{"worker"}, args...)...); err != nil {
			return err
		}
	}
	return await(ctx, time.Minute, func(ctx context.Context) error { return s.get(ctx, "/readyz") })
}

// engineSpeed makes engines slow enough that a worker always has requests in flight when it is killed.
const engineSpeed = "0.6"

func (s *stack) startEngines(ctx context.Context) error {
	client, err := cli.NewClient("http://"+s.server, "", s.http)
	if err != nil {
		return err
	}
	for i := range engines {
		address, err := freeAddress()
		if err != nil {
			return err
		}
		_, port, _ := net.SplitHostPort(address)
		name := fmt.Sprintf("engine-%d", i)
		if err := s.spawn(name, s.cfg.Millrace, "engine", "simulate", "--port", port, "--seed", fmt.Sprint(i+1), "--speed", engineSpeed); err != nil {
			return err
		}
		recorded, err := s.recorder.serve(i, address)
		if err != nil {
			return err
		}
		front, err := s.link(name, recorded)
		if err != nil {
			return err
		}
		add := func(ctx context.Context) error { return client.AddEngine(ctx, name, "http://"+front, 0) }
		if err := await(ctx, 20*time.Second, add); err != nil {
			return fmt.Errorf("add %s: %w", name, err)
		}
	}
	return nil
}

func (s *stack) link(name, target string) (address string, err error) {
	k, err := newLink(target)
	if err != nil {
		return "", err
	}
	s.links[name] = k
	return k.address(), nil
}

// toTemporal is every link to Temporal.
func (s *stack) toTemporal() []*link {
	all := []*link{s.links["server-temporal"]}
	for i := range workers {
		all = append(all, s.links[fmt.Sprintf("worker-%d-temporal", i)])
	}
	return all
}

func (s *stack) spawn(name, path string, args ...string) error {
	return s.start(name, false, path, args...)
}

func (s *stack) start(name string, once bool, path string, args ...string) error {
	log, err := s.log(name)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logs = append(s.logs, log)
	return s.group.Start(supervise.Process{Name: name, Path: path, Args: args, Log: log, Once: once})
}

func (s *stack) log(name string) (*os.File, error) {
	log, err := os.OpenFile(filepath.Join(s.cfg.Dir, "logs", name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", name, err)
	}
	return log, nil
}

// stray is a process that is not started again when it ends.
type stray struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// succeed starts a second trainer of the run, beside the one in the group.
func (s *stack) succeed(p plan) error {
	log, err := s.log("successor-" + p.run())
	if err != nil {
		return err
	}
	cmd := exec.Command(s.cfg.Millrace, s.trainerArgs(p)...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		log.Close()
		return fmt.Errorf("start a successor: %w", err)
	}
	second := &stray{cmd, make(chan struct{})}
	go func() {
		defer close(second.done)
		_ = cmd.Wait() // it ends with an error when it is replaced in its turn
		log.Close()
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strays = append(s.strays, second)
	return nil
}

// pid is 0 while the part is dead.
func (s *stack) pid(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.group.PID(name)
}

func (s *stack) get(ctx context.Context, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.server+path, nil)
	if err != nil {
		return err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %d", path, resp.StatusCode)
	}
	return nil
}

func (s *stack) stop() {
	s.mu.Lock()
	for _, stray := range s.strays {
		_ = stray.cmd.Process.Kill() // it may have ended
		<-stray.done
	}
	s.group.Stop(nil)
	s.mu.Unlock()
	for _, k := range s.links {
		k.close()
	}
	s.recorder.close()
	if s.rdb != nil {
		s.rdb.Close()
	}
	for _, log := range s.logs {
		log.Close()
	}
}

// freeAddress is a loopback address where nothing listens at the moment.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// await repeats f until it succeeds.
func await(ctx context.Context, patience time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := f(ctx)
		if err == nil {
			return nil
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
