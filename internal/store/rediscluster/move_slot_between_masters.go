// Package rediscluster does to a Redis Cluster what those who run it do: it moves a hash slot from one node to another
// while clients use it, and says who has a key. Start reading at MoveSlot.
package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// keysAtOnce is how many keys are moved by one call.
const keysAtOnce = 16

// MoveSlot moves a slot from one master to another, key by key, as `redis-cli --cluster reshard` does. between is called
// when both nodes know of the move and after each portion of keys, with how many portions have gone: meanwhile callers
// are sent on by ASK, and told to try again where some of their keys have gone and some have not. An error leaves the
// slot where it was, with the keys that have gone brought back, if that can be done.
func MoveSlot(ctx context.Context, from, to *redis.Client, slot int, between func(portion int)) error {
	err := begin(ctx, from, to, slot)
	if err == nil {
		err = transfer(ctx, from, to, slot, between)
	}
	if err == nil {
		// The new owner comes first, so that no client is sent back and forth.
		err = assign(ctx, slot, to, to, from)
	}
	if err != nil {
		back := context.WithoutCancel(ctx)
		undo, cancel := context.WithTimeout(back, time.Minute)
		defer cancel()
		return errors.Join(fmt.Errorf("move slot %d to %s: %w", slot, to.Options().Addr, err), restore(undo, from, to, slot))
	}
	return nil
}

func begin(ctx context.Context, from, to *redis.Client, slot int) error {
	source, err := id(ctx, from)
	if err != nil {
		return err
	}
	target, err := id(ctx, to)
	if err != nil {
		return err
	}
	if err := to.Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", source).Err(); err != nil {
		return err
	}
	return from.Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", target).Err()
}

func transfer(ctx context.Context, from, to *redis.Client, slot int, between func(int)) error {
	host, port, _ := strings.Cut(to.Options().Addr, ":")
	for portion := 0; ; portion++ {
		between(portion)
		keys, err := from.ClusterGetKeysInSlot(ctx, slot, keysAtOnce).Result()
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			return nil
		}
		args := []any{"MIGRATE", host, port, "", 0, 5000, "KEYS"}
		for _, key := range keys {
			args = append(args, key)
		}
		if err := from.Do(ctx, args...).Err(); err != nil {
			return err
		}
	}
}

// assign tells nodes whose the slot is.
func assign(ctx context.Context, slot int, owner *redis.Client, nodes ...*redis.Client) error {
	name, err := id(ctx, owner)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		if err := node.Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", name).Err(); err != nil {
			return err
		}
	}
	return nil
}

// restore brings back the keys of a slot that have left.
func restore(ctx context.Context, from, to *redis.Client, slot int) error {
	if err := transfer(ctx, to, from, slot, func(int) {}); err != nil {
		return err
	}
	return assign(ctx, slot, from, from, to)
}

func id(ctx context.Context, node *redis.Client) (string, error) {
	name, err := node.Do(ctx, "CLUSTER", "MYID").Text()
	if err != nil {
		return "", fmt.Errorf("ask %s who it is: %w", node.Options().Addr, err)
	}
	return name, nil
}

// Owner is the address of the master that has a slot now, as a node knows it.
func Owner(ctx context.Context, node *redis.Client, slot int) (address string, err error) {
	//lint:ignore SA1019 Redis 6.2 has no CLUSTER SHARDS
	all, err := node.ClusterSlots(ctx).Result()
	if err != nil {
		return "", fmt.Errorf("ask %s for the slots: %w", node.Options().Addr, err)
	}
	for _, some := range all {
		if some.Start <= slot && slot <= some.End && len(some.Nodes) > 0 {
			return some.Nodes[0].Addr, nil
		}
	}
	return "", fmt.Errorf("nobody has slot %d, says %s", slot, node.Options().Addr)
}

// Slot is the slot of a key.
func Slot(ctx context.Context, node *redis.Client, key string) (int, error) {
	slot, err := node.ClusterKeySlot(ctx, key).Result()
	if err != nil {
		return 0, fmt.Errorf("ask %s for the slot of a key: %w", node.Options().Addr, err)
	}
	return int(slot), nil
}
