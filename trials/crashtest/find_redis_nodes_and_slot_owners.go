package crashtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/store/rediscluster"
	"github.com/millrace/millrace/trials/stack"
)

// masters is how many a Cluster has.
const masters = 3

// redisNode is one node of Redis: a child, and a client that goes to it directly.
type redisNode struct {
	*redis.Client
	name string
}

// redisNodeAt is the node at an address. The caller closes it.
func (s *service) redisNodeAt(address string) (redisNode, error) {
	i := slices.Index(s.RedisNodes, address)
	if i < 0 {
		return redisNode{}, fmt.Errorf("%s is no node of %v", address, s.RedisNodes)
	}
	rdb := redis.NewClient(&redis.Options{Addr: address, DialTimeout: time.Second, ReadTimeout: 5 * time.Second,
		WriteTimeout: time.Second, MaxRetries: -1})
	return redisNode{rdb, redisName(i)}, nil
}

// redisName is how the child of the i-th node is called.
func redisName(i int) string {
	if i == 0 {
		return "redis"
	}
	return fmt.Sprintf("redis-%d", i)
}

// dir is where the node writes.
func (s *service) dir(n redisNode) string { return filepath.Join(s.cfg.Dir, n.name) }

// masterOf is the node that has the run's account now. The caller closes it.
func (s *service) masterOf(ctx context.Context, p plan) (redisNode, error) {
	address, err := s.masterAddress(ctx, p)
	if err != nil {
		return redisNode{}, err
	}
	return s.redisNodeAt(address)
}

func (s *service) masterAddress(ctx context.Context, p plan) (string, error) {
	switch s.cfg.Layout {
	case Sentinel:
		sentinel := redis.NewSentinelClient(&redis.Options{Addr: s.Sentinel})
		defer sentinel.Close()
		at, err := sentinel.GetMasterAddrByName(ctx, stack.MasterName).Result()
		if err != nil {
			return "", fmt.Errorf("ask Sentinel: %w", err)
		}
		return net.JoinHostPort(at[0], at[1]), nil
	case Cluster:
		return s.slotOwner(ctx, p.accountKey())
	case Single:
	}
	return s.Redis, nil
}

// slotOwner is the master of a Cluster that has a key's slot. Nodes that were stopped have something else in mind: the
// owner is who says so itself.
func (s *service) slotOwner(ctx context.Context, key string) (string, error) {
	var last error
	for _, address := range s.RedisNodes {
		owner, err := func() (string, error) {
			node, err := s.redisNodeAt(address)
			if err != nil {
				return "", err
			}
			defer node.Close()
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			slot, err := rediscluster.Slot(ctx, node.Client, key)
			if err != nil {
				return "", err
			}
			return rediscluster.Owner(ctx, node.Client, slot)
		}()
		if err == nil && owner == address {
			return owner, nil
		}
		last = errors.Join(last, err)
	}
	return "", fmt.Errorf("nobody has %s: %w", key, last)
}

// accountKey is the key of the run's account, and keptKey one in the same slot that the service knows nothing of.
func (p plan) accountKey() string { return fmt.Sprintf("%s:{%s}:run", prefix, p.id()) }
func (p plan) keptKey() string    { return fmt.Sprintf("%s:{%s}:kept-by-chaos", prefix, p.id()) }

// redisProcesses are the children that Redis is made of.
func (s *service) redisProcesses() []string {
	var names []string
	for i := range s.RedisNodes {
		names = append(names, redisName(i))
	}
	if s.Sentinel != "" {
		names = append(names, "sentinel")
	}
	return names
}
