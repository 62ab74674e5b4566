package crashtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/internal/store/redisserver"
	"github.com/millrace/millrace/trials/stack"
)

// service is the running service with a link of ours between every two parts, and a recorder before each engine.
type service struct {
	*stack.Stack
	cfg      Config
	began    time.Time
	recorder *recorder
	mu       sync.Mutex
	bought   *boughtEngines
	strays   []*stray // successors of stopped trainers, outside the stack: nobody starts them again

	links map[string]*link

	environments []string // addresses
	// Ours, not through links.
	rdb      redis.UniversalClient
	store    *buffer.Store
	temporal temporal
}

const prefix = "chaos" // of our keys in Redis

// retention is how long a run is kept once it is over: long enough for everything to be claimed once more.
const retention = 45 * time.Second

// configuration is that of server and workers.
func (c *Config) configuration() string {
	text := fmt.Sprintf("redis: {prefix: %s}\nretain_steps: %d\n", prefix, c.retain())
	if c.Lives > 2 {
		text += fmt.Sprintf("retention: %s\n", retention)
	}
	return text
}

// engineSpeed makes engines slow enough that a worker always has requests in flight when it is killed.
const engineSpeed = "0.6"

func startService(ctx context.Context, cfg Config) (*service, error) {
	s := &service{cfg: cfg, began: time.Now(), recorder: newRecorder(), links: map[string]*link{}}
	for _, dir := range []string{"adapters", "journals", "events", "checkpoints", "programs"} {
		if err := os.MkdirAll(filepath.Join(cfg.Dir, dir), 0o755); err != nil {
			return nil, err
		}
	}
	err := s.prepareScaling(ctx)
	if err != nil {
		s.stop()
		return nil, err
	}
	s.Stack, err = stack.Start(ctx, stack.Config{
		Programs: cfg.Programs, Dir: cfg.Dir,
		Service: cfg.configuration() + s.scalingSection(), Workers: workers,
		Engines: engines, EngineArgs: []string{"--speed", engineSpeed, "--faults"},
		Between: s.between, Log: cfg.Log, Replica: cfg.Layout != Single, Masters: cfg.masters(),
	})
	if err == nil {
		_, err = s.link("trainer-server", s.Server)
	}
	if err != nil {
		s.stop()
		return nil, err
	}
	if s.rdb, err = s.ownRedis(); err != nil {
		s.stop()
		return nil, err
	}
	s.store = buffer.New(s.rdb, buffer.Options{Prefix: prefix})
	if s.temporal, err = newTemporal(s.Temporal); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// masters is how many Redis has that share the slots of a Cluster.
func (c *Config) masters() int {
	if c.Layout == Cluster {
		return masters
	}
	return 0
}

// ownRedis is our way to Redis.
func (s *service) ownRedis() (redis.UniversalClient, error) {
	separator := "?"
	if strings.Contains(s.RedisURL, "?") {
		separator = "&"
	}
	address, err := redisserver.Parse(s.RedisURL + separator +
		"dial_timeout=1s&read_timeout=1s&write_timeout=1s&max_retries=-1")
	if err != nil {
		return nil, err
	}
	return address.Connect(), nil
}

// between puts a link before every part, and a recorder behind the links to engines.
func (s *service) between(part, address string) (string, error) {
	var engine int
	if _, err := fmt.Sscanf(part, "engine-%d", &engine); err == nil {
		if address, err = s.recorder.serve(engine, address); err != nil {
			return "", err
		}
	}
	return s.link(part, address)
}

// account is what the buffer knows of the run.
func (s *service) account(ctx context.Context, p plan) (buffer.Account, error) {
	return s.store.Account(ctx, p.id())
}

func (s *service) say(format string, args ...any) {
	at := time.Since(s.began).Round(100 * time.Millisecond)
	fmt.Fprintf(s.cfg.Log, "%7s "+format+"\n", append([]any{at}, args...)...) // a log that cannot be written stops nothing
}

func (s *service) link(name, target string) (address string, err error) {
	k, err := newLink(target)
	if err != nil {
		return "", err
	}
	s.links[name] = k
	return k.address(), nil
}

// toTemporal is every link to Temporal.
func (s *service) toTemporal() []*link {
	var all []*link
	for name, k := range s.links {
		if strings.HasSuffix(name, "-temporal") {
			all = append(all, k)
		}
	}
	return all
}

// stray is a process that is not started again when it ends.
type stray struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// succeed starts a second trainer of the run, beside the one in the group.
func (s *service) succeed(p plan) error {
	log, err := s.Log("successor-" + p.label())
	if err != nil {
		return err
	}
	cmd := exec.Command(s.cfg.Lab, s.trainerArgs(p)...)
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

func (s *service) stop() {
	s.mu.Lock()
	for _, stray := range s.strays {
		_ = stray.cmd.Process.Kill() // it may have ended
		<-stray.done
	}
	s.mu.Unlock()
	if s.Stack != nil {
		s.Stop()
	}
	if s.bought != nil {
		s.bought.release()
	}
	for _, k := range s.links {
		k.close()
	}
	s.recorder.close()
	if s.rdb != nil {
		s.rdb.Close()
	}
	if s.temporal.Client != nil {
		s.temporal.Close()
	}
}
