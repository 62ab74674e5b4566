package connections

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestTemporalOptions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		cfg         Temporal
		tls, hasKey bool
	}{
		{"plain", Temporal{Address: "a:1", Namespace: "n"}, false, false},
		{"tls", Temporal{Address: "a:1", Namespace: "n", TLS: true}, true, false},
		{"a key is never sent in the clear", Temporal{Address: "a:1", Namespace: "n", APIKey: "k"}, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := temporalOptions(tt.cfg, slog.New(slog.DiscardHandler))
			if o.HostPort != "a:1" || o.Namespace != "n" || (o.ConnectionOptions.TLS != nil) != tt.tls ||
				(o.Credentials != nil) != tt.hasKey {
				t.Errorf("%+v", o)
			}
		})
	}
}

func TestNoRedis(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := AwaitRedis(ctx, "redis://127.0.0.1:1/0"); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("%v", err)
	}
}

// TestRedisAdvice: a Redis that is there and hangs up, as one in protected mode does, is not to be started.
func TestRedisAdvice(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want string
	}{
		{syscall.ECONNREFUSED, "start one"},
		{context.DeadlineExceeded, "start one"},
		{fmt.Errorf("ping: %w", io.EOF), "protected-mode no"},
		{&net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.EPIPE)}, "protected-mode no"},
		{&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, "rediss://"},
	} {
		if got := redisAdvice(tt.err); !strings.Contains(got, tt.want) {
			t.Errorf("%v: %s, want %s", tt.err, got, tt.want)
		}
	}
}
