package redisserver

import (
	"fmt"
	"log/slog"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/kit/freeport"
	"github.com/millrace/millrace/internal/kit/retry"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("needs redis-server on the PATH (Debian: apt-get install redis-server)")
	}
	port, err := freeport.Port()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	a, err := Parse(fmt.Sprintf("redis://127.0.0.1:%d/0", port))
	if err != nil {
		t.Fatal(err)
	}
	rdb := a.Connect().(*redis.Client)
	t.Cleanup(func() { _ = rdb.Close() })
	ctx := t.Context()
	for rdb.Ping(ctx).Err() != nil && retry.Pause(ctx, 20*time.Millisecond) == nil {
	}
	for _, tt := range []struct {
		name, save, only, fsync, policy string
		level                           slog.Level
		says, refuses                   string
	}{
		{"as promises ask for", "", "yes", "always", "noeviction", 0, "", ""},
		{"the default of a log", "", "yes", "everysec", "noeviction", slog.LevelInfo, "a power cut loses", ""},
		{"snapshots", "60 1", "no", "always", "noeviction", slog.LevelWarn, "since the last snapshot", ""},
		{"nothing", "", "no", "always", "noeviction", slog.LevelWarn, "loses everything", ""},
		{"deletes what it likes", "", "yes", "always", "allkeys-lru", 0, "", "set it to noeviction"},
		{"deletes what is used least", "", "yes", "always", "allkeys-lfu", 0, "", "set it to noeviction"},
		{"deletes anything", "", "yes", "always", "allkeys-random", 0, "", "set it to noeviction"},
		{"deletes what would expire", "", "yes", "always", "volatile-ttl", 0, "", "set it to noeviction"},
		{"deletes of that what it likes", "", "yes", "always", "volatile-lru", 0, "", "set it to noeviction"},
		{"deletes of that what is used least", "", "yes", "always", "volatile-lfu", 0, "", "set it to noeviction"},
		{"deletes of that anything", "", "yes", "always", "volatile-random", 0, "", "set it to noeviction"},
	} {
		for name, value := range map[string]string{"save": tt.save, "appendonly": tt.only, "appendfsync": tt.fsync,
			"maxmemory-policy": tt.policy} {
			if err := rdb.ConfigSet(ctx, name, value).Err(); err != nil {
				t.Fatal(err)
			}
		}
		found, err := Check(ctx, rdb)
		if (err == nil) != (tt.refuses == "") || err != nil && !strings.Contains(err.Error(), tt.refuses) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.refuses)
		}
		if text := fmt.Sprint(found); (len(found) > 0) != (tt.says != "") || !strings.Contains(text, tt.says) ||
			len(found) > 0 && found[0].Level != tt.level {
			t.Errorf("%s: says %v, want %q", tt.name, found, tt.says)
		}
	}
}

// What does not let itself be asked is whoever runs it to know about.
func TestCheckOfARedisThatTellsNothing(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	found, err := Check(t.Context(), rdb)
	if err != nil || len(found) != 1 || found[0].Level != slog.LevelDebug {
		t.Errorf("%v, %v", found, err)
	}
}
