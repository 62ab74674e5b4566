package store_test

import (
	"context"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/freeport"
)

// onBoth runs a test on the embedded Redis and on a real one, if there is one.
func onBoth(t *testing.T, test func(t *testing.T, rdb redis.UniversalClient)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, newLink(t))
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		test(t, realRedis(t))
	})
}

// server is the one redis-server of the test process; each test gets a database of its own.
var server struct {
	mu     sync.Mutex
	nextDB int
	addr   string
	stop   func()
}

const databases = 128

func realRedis(t testing.TB) redis.UniversalClient {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not on the PATH; `apt-get install redis-server` has it, and this suite then runs on it too")
	}
	server.mu.Lock()
	defer server.mu.Unlock()
	if server.addr == "" {
		port, err := freeport.Port()
		if err != nil {
			t.Fatal(err)
		}
		server.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		server.stop = serve(t, binary, t.TempDir(), port, "--appendonly", "no")
	}
	rdb := redis.NewClient(&redis.Options{Addr: server.addr, DB: server.nextDB})
	server.nextDB++
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// serve starts a redis-server in a directory, waits until it answers, and returns how to kill it.
func serve(t testing.TB, binary, dir string, port int, args ...string) (kill func()) {
	t.Helper()
	cmd := exec.Command(binary, append([]string{
		"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir, "--save", "",
		"--databases", strconv.Itoa(databases), "--logfile", filepath.Join(dir, "log"),
	}, args...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	rdb := redis.NewClient(&redis.Options{
		Addr:       net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		MaxRetries: 300, MinRetryBackoff: 10 * time.Millisecond, MaxRetryBackoff: 100 * time.Millisecond,
	})
	defer func() { _ = rdb.Close() }()
	if err := rdb.Ping(context.Background()).Err(); err != nil {
		kill()
		t.Fatal(err)
	}
	return kill
}
