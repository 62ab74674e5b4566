package stack

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/freeport"
)

func (s *Stack) startRedis() (err error) {
	if s.cfg.RedisAt != "" {
		s.Redis, s.RedisURL = s.cfg.RedisAt, "redis://"+s.cfg.RedisAt+"/0"
		return nil
	}
	if s.cfg.Masters > 0 {
		return s.startCluster()
	}
	if s.Redis, err = s.spawnRedis("redis"); err != nil || !s.cfg.Replica {
		s.RedisURL, s.RedisNodes = "redis://"+s.Redis+"/0", []string{s.Redis}
		return err
	}
	_, port, _ := net.SplitHostPort(s.Redis)
	replica, err := s.spawnRedis("redis-1", "--replicaof", "127.0.0.1 "+port)
	if err != nil {
		return err
	}
	s.RedisNodes = []string{s.Redis, replica}
	return s.startSentinel(port)
}

// MasterName is the name under which Sentinel knows a stack's Redis.
const MasterName = "millrace"

// startSentinel starts one that promotes the replica a second after the master was heard last.
func (s *Stack) startSentinel(master string) (err error) {
	if s.Sentinel, err = freeport.Address(); err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(s.Sentinel)
	file := filepath.Join(s.cfg.Dir, "sentinel.conf")
	text := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor %s 127.0.0.1 %s 1\n"+
		"sentinel down-after-milliseconds %[3]s 1000\nsentinel failover-timeout %[3]s 4000\n", port, s.cfg.Dir, MasterName,
		master)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	s.RedisURL = fmt.Sprintf("redis+sentinel://%s/0?master=%s", s.Sentinel, MasterName)
	return s.Spawn("sentinel", false, s.cfg.Redis, file, "--sentinel")
}

// spawnRedis starts a Redis with a folder of its own name.
func (s *Stack) spawnRedis(name string, args ...string) (address string, err error) {
	if address, err = freeport.Address(); err != nil {
		return "", err
	}
	dir := filepath.Join(s.cfg.Dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	_, port, _ := net.SplitHostPort(address)
	return address, s.Spawn(name, false, s.cfg.Redis, append([]string{"--port", port, "--bind", "127.0.0.1",
		"--dir", dir, "--appendonly", s.cfg.onDisk("yes", "no"), "--appendfsync", cmp.Or(s.cfg.Fsync, "always"),
		"--save", "", "--maxmemory-policy", "noeviction", "--repl-diskless-sync-delay", "0"}, args...)...)
}

// awaitRedis waits until all nodes answer, and are a Cluster if they are to be.
func (s *Stack) awaitRedis(ctx context.Context) error {
	for _, node := range append([]string{s.Redis}, s.RedisNodes...) {
		rdb := redis.NewClient(&redis.Options{Addr: node, DialTimeout: time.Second})
		defer rdb.Close()
		if err := Await(ctx, time.Minute, func(ctx context.Context) error { return rdb.Ping(ctx).Err() }); err != nil {
			return fmt.Errorf("redis does not answer: %w", err)
		}
	}
	if s.cfg.Masters > 0 {
		return s.joinCluster(ctx)
	}
	return nil
}

// slots is how many there are in a Redis Cluster.
const slots = 16384

// startCluster starts masters that know each other and share the slots evenly.
func (s *Stack) startCluster() error {
	for i := range s.cfg.Masters {
		name := "redis"
		if i > 0 {
			name = fmt.Sprintf("redis-%d", i)
		}
		bus, err := freeport.Port()
		if err != nil {
			return err
		}
		if i == 0 {
			s.firstBus = bus
		}
		node, err := s.spawnRedis(name, "--cluster-enabled", "yes", "--cluster-port", fmt.Sprint(bus))
		if err != nil {
			return err
		}
		s.RedisNodes = append(s.RedisNodes, node)
	}
	s.Redis, s.RedisURL = s.RedisNodes[0], "redis+cluster://"+strings.Join(s.RedisNodes, ",")
	return nil
}

// joinCluster introduces the masters to each other and returns when each serves and knows all.
func (s *Stack) joinCluster(ctx context.Context) error {
	for i, node := range s.RedisNodes {
		rdb := redis.NewClient(&redis.Options{Addr: node, DialTimeout: time.Second})
		defer rdb.Close()
		from, to := i*slots/len(s.RedisNodes), (i+1)*slots/len(s.RedisNodes)-1
		if err := rdb.ClusterAddSlotsRange(ctx, from, to).Err(); err != nil {
			return fmt.Errorf("give slots of the Cluster to %s: %w", node, err)
		}
		// Nodes that meet with the same configuration number would have to agree on another one first.
		if err := rdb.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return fmt.Errorf("number %s in the Cluster: %w", node, err)
		}
		host, port, _ := net.SplitHostPort(s.RedisNodes[0])
		if err := rdb.Do(ctx, "CLUSTER", "MEET", host, port, s.firstBus).Err(); err != nil {
			return fmt.Errorf("introduce %s to the Cluster: %w", node, err)
		}
	}
	for _, node := range s.RedisNodes {
		if err := Await(ctx, time.Minute, func(ctx context.Context) error { return s.inCluster(ctx, node) }); err != nil {
			return err
		}
	}
	return nil
}

// inCluster is why a master is not yet what callers need.
func (s *Stack) inCluster(ctx context.Context, node string) error {
	rdb := redis.NewClient(&redis.Options{Addr: node, DialTimeout: time.Second})
	defer rdb.Close()
	info, err := rdb.ClusterInfo(ctx).Result()
	if err != nil {
		return fmt.Errorf("redis at %s: %w", node, err)
	}
	for _, want := range []string{"cluster_state:ok", fmt.Sprintf("cluster_size:%d", len(s.RedisNodes))} {
		if !strings.Contains(info, want) {
			return fmt.Errorf("the Redis at %s is not a node of a working Cluster: it does not say %s", node, want)
		}
	}
	return nil
}
