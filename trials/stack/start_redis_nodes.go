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

	"github.com/millrace/millrace/internal/kit/freeport"
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
	replica, err := s.spawnRedis("redis-1", "replicaof 127.0.0.1 "+port)
	if err != nil {
		return err
	}
	s.RedisNodes = []string{s.Redis, replica}
	return s.startSentinel(port)
}

// MasterName is the name under which Sentinel knows a stack's Redis.
const MasterName = "millrace"

// startSentinel starts one that promotes the replica two seconds after the master was heard last, if the replica heard
// it within ten times that.
func (s *Stack) startSentinel(master string) (err error) {
	if s.Sentinel, err = freeport.Address(); err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(s.Sentinel)
	file := filepath.Join(s.cfg.Dir, "sentinel.conf")
	text := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor %s 127.0.0.1 %s 1\n"+
		"sentinel down-after-milliseconds %[3]s 2000\nsentinel failover-timeout %[3]s 2000\n", port, s.cfg.Dir, MasterName,
		master)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	s.RedisURL = sentinelURL(s.Sentinel)
	return s.Spawn("sentinel", false, s.cfg.Redis, file, "--sentinel")
}

func sentinelURL(address string) string {
	return fmt.Sprintf("redis+sentinel://%s/0?master=%s", address, MasterName)
}

// redisOf is the URL by which a part finds Redis.
func (s *Stack) redisOf(part string) (url string, err error) {
	switch {
	case s.cfg.Masters > 0:
		return s.RedisURL, nil
	case s.Sentinel != "":
		address, err := s.cfg.Between(part+"-sentinel", s.Sentinel)
		return sentinelURL(address), err
	}
	address, err := s.cfg.Between(part+"-redis", s.Redis)
	return "redis://" + address + "/0", err
}

// spawnRedis starts a Redis with a folder of its own name. Its settings are in a file, which Sentinel rewrites: started
// again, the node is what it was before, a master or a replica.
func (s *Stack) spawnRedis(name string, settings ...string) (address string, err error) {
	if address, err = freeport.Address(); err != nil {
		return "", err
	}
	dir := filepath.Join(s.cfg.Dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	_, port, _ := net.SplitHostPort(address)
	settings = append([]string{"port " + port, "bind 127.0.0.1", "dir " + dir,
		"appendonly " + s.cfg.onDisk("yes", "no"), "appendfsync " + cmp.Or(s.cfg.Fsync, "always"), `save ""`,
		"maxmemory-policy noeviction", "repl-diskless-sync-delay 0"}, settings...)
	file := filepath.Join(dir, "redis.conf")
	if err := os.WriteFile(file, []byte(strings.Join(settings, "\n")+"\n"), 0o644); err != nil {
		return "", err
	}
	return address, s.Spawn(name, false, s.cfg.Redis, file)
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

// startCluster starts masters that know each other and share the slots evenly, then their replicas.
func (s *Stack) startCluster() error {
	for i := range s.clusterNodes() {
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
		node, err := s.spawnRedis(name, "cluster-enabled yes", fmt.Sprintf("cluster-port %d", bus),
			"cluster-node-timeout "+nodeTimeoutMs, "cluster-replica-validity-factor 0", "cluster-allow-replica-migration no")
		if err != nil {
			return err
		}
		s.RedisNodes = append(s.RedisNodes, node)
	}
	s.Redis, s.RedisURL = s.RedisNodes[0], "redis+cluster://"+strings.Join(s.RedisNodes, ",")
	return nil
}

// nodeTimeoutMs is how long a master of a Cluster is not heard before its replica takes its place, however far it lags.
const nodeTimeoutMs = "2000"

// clusterNodes is how many nodes the Cluster has: masters, and a replica of each if there are to be any.
func (s *Stack) clusterNodes() int {
	if s.cfg.Replica {
		return 2 * s.cfg.Masters
	}
	return s.cfg.Masters
}

// joinCluster introduces the masters to each other and returns when each serves and knows all.
func (s *Stack) joinCluster(ctx context.Context) error {
	for i, node := range s.RedisNodes {
		rdb := redis.NewClient(&redis.Options{Addr: node, DialTimeout: time.Second})
		defer rdb.Close()
		if i < s.cfg.Masters {
			from, to := i*slots/s.cfg.Masters, (i+1)*slots/s.cfg.Masters-1
			if err := rdb.ClusterAddSlotsRange(ctx, from, to).Err(); err != nil {
				return fmt.Errorf("give slots of the Cluster to %s: %w", node, err)
			}
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
	if err := s.replicate(ctx); err != nil {
		return err
	}
	for _, node := range s.RedisNodes {
		if err := Await(ctx, time.Minute, func(ctx context.Context) error { return s.inCluster(ctx, node) }); err != nil {
			return err
		}
	}
	return nil
}

// replicate makes the nodes after the masters replicas of these, and returns when each has a link to its own.
func (s *Stack) replicate(ctx context.Context) error {
	for i, node := range s.RedisNodes[s.cfg.Masters:] {
		master := redis.NewClient(&redis.Options{Addr: s.RedisNodes[i], DialTimeout: time.Second})
		defer master.Close()
		replica := redis.NewClient(&redis.Options{Addr: node, DialTimeout: time.Second})
		defer replica.Close()
		id, err := master.Do(ctx, "CLUSTER", "MYID").Text()
		if err != nil {
			return fmt.Errorf("ask %s who it is: %w", s.RedisNodes[i], err)
		}
		err = Await(ctx, time.Minute, func(ctx context.Context) error { // once it has heard of its master
			if err := replica.ClusterReplicate(ctx, id).Err(); err != nil {
				return fmt.Errorf("make %s a replica of %s: %w", node, s.RedisNodes[i], err)
			}
			return nil
		})
		if err != nil {
			return err
		}
		err = Await(ctx, time.Minute, func(ctx context.Context) error {
			if info, err := replica.Info(ctx, "replication").Result(); err != nil ||
				!strings.Contains(info, "master_link_status:up") {
				return fmt.Errorf("%s is no replica of %s yet (%v)", node, s.RedisNodes[i], err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// inCluster is why a node is not yet what callers need.
func (s *Stack) inCluster(ctx context.Context, node string) error {
	rdb := redis.NewClient(&redis.Options{Addr: node, DialTimeout: time.Second})
	defer rdb.Close()
	info, err := rdb.ClusterInfo(ctx).Result()
	if err != nil {
		return fmt.Errorf("redis at %s: %w", node, err)
	}
	for _, want := range []string{"cluster_state:ok", fmt.Sprintf("cluster_size:%d", s.cfg.Masters)} {
		if !strings.Contains(info, want) {
			return fmt.Errorf("the Redis at %s is not a node of a working Cluster: it does not say %s", node, want)
		}
	}
	return nil
}
