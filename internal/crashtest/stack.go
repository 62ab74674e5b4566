package crashtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
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
	for _, dir := range []string{"logs", "redis", "adapters", "journals"} {
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

func (s *stack) spawn(name, path string, args ...string) error {
	return s.start(name, false, path, args...)
}

func (s *stack) start(name string, once bool, path string, args ...string) error {
	log, err := os.OpenFile(filepath.Join(s.cfg.Dir, "logs", name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open log of %s: %w", name, err)
	}
	s.logs = append(s.logs, log)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.group.Start(supervise.Process{Name: name, Path: path, Args: args, Log: log, Once: once})
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
