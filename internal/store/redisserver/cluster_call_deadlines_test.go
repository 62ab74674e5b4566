package redisserver_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/store/redisserver"
	"github.com/millrace/millrace/internal/store/redistest"
)

// Nodes of a Cluster that hang hold a call up once, not once per redirect. The caller's context ends it before, too.
func TestCallsToAClusterThatHangsAreBounded(t *testing.T) {
	t.Parallel()
	nodes := redistest.Masters(t, 2)
	a, err := redisserver.Parse("redis+cluster://" + strings.Join(nodes.Address, ",") + "?read_timeout=1s")
	if err != nil {
		t.Fatal(err)
	}
	rdb := a.Connect()
	defer rdb.Close()
	ctx := t.Context()
	if err := rdb.Set(ctx, "a", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	for _, address := range nodes.Address {
		redistest.Client(t, address, 0).Do(ctx, "CLIENT", "PAUSE", 60_000, "ALL")
	}
	for _, tt := range []struct {
		name string
		call func(context.Context) error
	}{
		{"a command", func(ctx context.Context) error { return rdb.Set(ctx, "a", 2, 0).Err() }},
		{"a script", func(ctx context.Context) error { return rdb.Eval(ctx, "return 1", []string{"a"}).Err() }},
		{"a pipeline", func(ctx context.Context) error {
			var answer *redis.StringCmd
			_, _ = rdb.Pipelined(ctx, func(p redis.Pipeliner) error { answer = p.Get(ctx, "a"); return nil })
			return answer.Err()
		}},
	} {
		began := time.Now()
		err := tt.call(ctx)
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want a timeout that is not the caller's", tt.name, err)
		}
		took := time.Since(began)
		if took > 8*time.Second { // 9 rounds of 1 s and their rests are more
			t.Errorf("%s took %s", tt.name, took)
		}
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		began = time.Now()
		err = tt.call(short) // the connection may notice the deadline before the context does
		if !errors.As(err, &timeout) || !timeout.Timeout() || time.Since(began) > took/2 {
			t.Errorf("%s: %v after %s, want the caller's deadline", tt.name, err, time.Since(began))
		}
		cancel()
	}
}
