package redisserver_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/store/redisserver"
	"github.com/millrace/millrace/internal/store/redistest"
)

// A log that a power cut has torn in the middle of a script: Redis comes up without the script, and stays without it
// when it is restarted again.
func TestTornLogIsRewritten(t *testing.T) {
	t.Parallel()
	dir, port := t.TempDir(), redistest.Port(t)
	start := func() (redis.UniversalClient, func()) {
		addr, kill := redistest.Start(t, dir, port, "--appendonly", "yes", "--appendfsync", "always")
		return redistest.Client(t, addr, 0), kill
	}
	ctx := t.Context()
	rdb, kill := start()
	if err := rdb.Eval(ctx, `for i = 1, 9 do redis.call('INCR', 'half') end`, nil).Err(); err != nil && err != redis.Nil {
		t.Fatal(err)
	}
	kill()
	logs, _ := filepath.Glob(filepath.Join(dir, "appendonlydir", "*.incr.aof"))
	if len(logs) != 1 {
		t.Skipf("this Redis writes its log as %v", logs)
	}
	info, err := os.Stat(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(logs[0], info.Size()-40); err != nil {
		t.Fatal(err)
	}

	rdb, kill = start()
	if err := redisserver.RewriteTornLogs(ctx, rdb); err != nil {
		t.Fatal(err)
	}
	done := func(ctx context.Context) error { return rewritten(ctx, rdb) }
	if err := retry.Within(ctx, 20*time.Second, 20*time.Millisecond, done); err != nil {
		t.Fatal(err)
	}
	if err := redisserver.RewriteTornLogs(ctx, rdb); err != nil {
		t.Errorf("once more: %v", err)
	}
	if err := rdb.Eval(ctx, `redis.call('SET', 'whole', 1); redis.call('INCR', 'whole')`, nil).Err(); err != nil &&
		err != redis.Nil {
		t.Fatal(err)
	}
	kill()

	rdb, kill = start()
	defer kill()
	if half, whole := rdb.Get(ctx, "half").Val(), rdb.Get(ctx, "whole").Val(); half != "" || whole != "2" {
		t.Errorf("after one more restart, half of a script is %q, want nothing; a whole one %q, want 2", half, whole)
	}
}

// rewritten is nil once the log was written anew.
func rewritten(ctx context.Context, rdb redis.UniversalClient) error {
	info, err := rdb.Info(ctx, "persistence").Result()
	if err == nil && !(strings.Contains(info, "aof_rewrites:1") && strings.Contains(info, "aof_rewrite_in_progress:0")) {
		err = errors.New("its log is not rewritten yet")
	}
	return err
}
