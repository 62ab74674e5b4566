package crashtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/stack"
)

// failOver cuts the replica off from the master of Redis. Taken back, the master is stopped, the replica, which lags,
// is promoted, and the old master wakes up beside it, as one that was cut off does.
func (in *injector) failOver(ctx context.Context) (back func(), err error) {
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: in.service.Sentinel})
	name, master, err := in.master(ctx, sentinel)
	if err != nil {
		return nil, errors.Join(err, sentinel.Close())
	}
	p := in.watch.current()
	before, err := in.service.account(ctx, p)
	if err != nil {
		return nil, errors.Join(err, sentinel.Close())
	}
	node := redis.NewClient(&redis.Options{Addr: master})
	refuse, leave := []any{"acl", "setuser", "default", "-psync", "-sync"}, []any{"client", "kill", "type", "replica"}
	for _, command := range [][]any{refuse, leave} {
		if err := node.Do(ctx, command...).Err(); err != nil {
			return nil, errors.Join(fmt.Errorf("cut the replica off: %w", err), node.Close(), sentinel.Close())
		}
	}
	return func() {
		defer sentinel.Close()
		defer node.Close()
		told := in.awaitSomethingTold(ctx, p, before.Mark.Serial)
		if err := in.signal(name, syscall.SIGSTOP); err != nil {
			in.service.say("  %s is dead already: %v", name, err)
		}
		err := stack.Await(ctx, time.Minute, func(ctx context.Context) error {
			_, now, err := in.master(ctx, sentinel)
			if err == nil && now == master {
				err = errors.New("no replica is promoted")
			}
			return err
		})
		_ = in.signal(name, syscall.SIGCONT) // it may have been killed meanwhile
		if err != nil {
			in.service.say("  no failover: %v", err)
			told = false
		}
		_ = node.Do(ctx, "acl", "setuser", "default", "+psync", "+sync").Err() // or when it is restarted
		in.noticed(ctx, p, before.Mark.Era, told)
	}, nil
}

// master is which child is the master of Redis now, and its address.
func (in *injector) master(ctx context.Context, sentinel *redis.SentinelClient) (name, address string, err error) {
	at, err := sentinel.GetMasterAddrByName(ctx, stack.MasterName).Result()
	if err != nil {
		return "", "", fmt.Errorf("ask Sentinel: %w", err)
	}
	address = net.JoinHostPort(at[0], at[1])
	switch slices.Index(in.service.RedisNodes, address) {
	case 0:
		return "redis", address, nil
	case 1:
		return "redis-1", address, nil
	}
	return "", "", fmt.Errorf("the master is at %s, which is none of %v", address, in.service.RedisNodes)
}
