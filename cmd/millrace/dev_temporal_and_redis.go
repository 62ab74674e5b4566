package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/alicebob/miniredis/v2"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/millrace/millrace/internal/kit/freeport"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/process/connections"
	"github.com/millrace/millrace/internal/process/temporalcli"
)

func (d *devStack) startTemporal(ctx context.Context) error {
	if d.opts.temporal != "" {
		d.temporal = d.opts.temporal
		return awaitTemporal(ctx, d.temporal, 10*time.Second)
	}
	bin, err := temporalBinary(d.opts.temporalBin)
	if err != nil {
		return err
	}
	port, err := freeport.Port()
	if err != nil {
		return err
	}
	d.temporal = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	args := temporalcli.DevServer(strconv.Itoa(port))
	if d.opts.uiPort > 0 {
		if err := portFree(d.opts.uiPort); err != nil {
			return usage("--ui-port %d: %v; choose another, or 0 for no UI", d.opts.uiPort, err)
		}
		args = append(args, "--ui-port", strconv.Itoa(d.opts.uiPort))
	} else {
		args = append(args, "--headless")
	}
	if d.opts.dataDir != "" {
		args = append(args, "--db-filename", filepath.Join(d.dir, "temporal.db"))
	}
	d.env.Say("starting the Temporal dev server on %s", d.temporal)
	if err := d.spawn("temporal", bin, args...); err != nil {
		return err
	}
	answers := func(ctx context.Context) error { return awaitTemporal(ctx, d.temporal, time.Minute) }
	if err := d.comesUp(ctx, "temporal", answers); err != nil {
		return err
	}
	if d.opts.uiPort > 0 {
		d.env.Say("Temporal's web UI on http://127.0.0.1:%d", d.opts.uiPort)
	}
	return nil
}

// temporalBinary finds the temporal CLI: where the flag says, or where it usually is.
func temporalBinary(flag string) (string, error) {
	if flag == "" {
		return temporalcli.Find(os.Getenv, ".")
	}
	if info, err := os.Stat(flag); err != nil || info.IsDir() {
		return "", usage("--temporal-bin %s: no such file", flag)
	}
	return filepath.Abs(flag)
}

func awaitTemporal(ctx context.Context, address string, patience time.Duration) error {
	err := retry.Within(ctx, patience, 100*time.Millisecond, func(ctx context.Context) error {
		silent := log.NewStructuredLogger(slog.New(slog.DiscardHandler))
		c, err := client.DialContext(ctx, client.Options{HostPort: address, Logger: silent})
		if err == nil {
			c.Close()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("temporal at %s %w within %s: %w", address, connections.ErrNoAnswer, patience, err)
	}
	return nil
}

func (d *devStack) startRedis(ctx context.Context) error {
	if d.opts.redis != "" {
		d.redis = d.opts.redis
		return connections.AwaitRedis(ctx, d.redis)
	}
	port, err := freeport.Port()
	if err != nil {
		return err
	}
	embedded := miniredis.NewMiniRedis()
	if err := embedded.StartAddr(net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err != nil {
		return fmt.Errorf("start the embedded Redis: %w", err)
	}
	go expireKeys(ctx, embedded)
	d.redis = "redis://" + embedded.Addr() + "/0"
	d.env.Say("embedded Redis on %s (kept in memory; --redis uses a real one)", embedded.Addr())
	return nil
}

// expireKeys has time pass in the embedded Redis, which does not look at a clock: or the leases of a server that was
// killed would never end.
func expireKeys(ctx context.Context, embedded *miniredis.Miniredis) {
	const every = 200 * time.Millisecond
	for was := time.Now(); retry.Pause(ctx, every) == nil; {
		now := time.Now()
		embedded.FastForward(now.Sub(was))
		was = now
	}
}

// portFree reports why nothing can listen on a port of this machine.
func portFree(port int) error {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return l.Close()
}
