package redisserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// bounded ends calls to a Cluster which would otherwise wait for a node that does not answer once per redirect.
type bounded struct{ patience time.Duration }

const (
	answersWithin = 5 * time.Second // of go-redis, if the URL does not say otherwise
	roundsWithin  = time.Second     // for redirects, on top of an answer
)

// boundedCalls is the bound that the options of a Cluster ask for; nil: none.
func boundedCalls(o *redis.ClusterOptions) redis.Hook {
	switch {
	case o.ReadTimeout < 0:
		return nil
	case o.ReadTimeout == 0:
		return bounded{answersWithin + roundsWithin}
	}
	return bounded{o.ReadTimeout + roundsWithin}
}

// DialHook leaves dialling as it is.
func (bounded) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook bounds one command, unless it asks to wait.
func (b bounded) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if waits(cmd) {
			return next(ctx, cmd)
		}
		within, cancel := context.WithTimeout(ctx, b.patience)
		defer cancel()
		return b.late(ctx, next(within, cmd))
	}
}

// ProcessPipelineHook bounds a pipeline as a whole.
func (b bounded) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if waits(cmd) {
				return next(ctx, cmds)
			}
		}
		within, cancel := context.WithTimeout(ctx, b.patience)
		defer cancel()
		err := b.late(ctx, next(within, cmds))
		for _, cmd := range cmds {
			if late := b.late(ctx, cmd.Err()); late != nil {
				cmd.SetErr(late)
			}
		}
		return err
	}
}

// late is the error of a call that this bound has ended: a timeout, after which the call may be repeated. An error of
// the caller's own context is returned unchanged.
func (b bounded) late(caller context.Context, err error) error {
	if !errors.Is(err, context.DeadlineExceeded) || caller.Err() != nil {
		return err
	}
	return fmt.Errorf("the Cluster has not answered within %s: %w", b.patience, os.ErrDeadlineExceeded)
}

// waits reports whether a command asks Redis to answer later.
func waits(cmd redis.Cmder) bool {
	switch name := strings.ToLower(cmd.Name()); name {
	case "wait", "waitaof", "subscribe", "psubscribe", "ssubscribe":
		return true
	case "xread", "xreadgroup":
		for _, arg := range cmd.Args() {
			if word, is := arg.(string); is && strings.EqualFold(word, "block") {
				return true
			}
		}
	}
	return false
}
