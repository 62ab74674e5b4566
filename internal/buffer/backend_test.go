package buffer_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/millrace/millrace/internal/freeport"
)

// onBoth runs a test on the embedded Redis and on a real one.
func onBoth(t *testing.T, test func(t *testing.T, rdb redis.UniversalClient)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, embedded(t))
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		test(t, realRedis(t))
	})
}

func embedded(t testing.TB) redis.UniversalClient {
	t.Helper()
	return client(t, miniredis.RunT(t).Addr(), 0)
}

func client(t testing.TB, addr string, db int) redis.UniversalClient {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr, DB: db})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// server is the one redis-server of the test process; each test gets a database of its own.
var server struct {
	once   sync.Once
	mu     sync.Mutex
	nextDB int
	addr   string
	stop   func()
	err    error
}

const databases = 1024

// realRedis is an empty database of a redis-server that is started for the tests and stopped after them.
func realRedis(t testing.TB) redis.UniversalClient {
	t.Helper()
	binary := redisServer(t)
	server.once.Do(func() { server.addr, server.stop, server.err = startRedis(binary) })
	if server.err != nil {
		t.Fatalf("start redis-server: %v", server.err)
	}
	server.mu.Lock()
	defer server.mu.Unlock()
	db := server.nextDB
	server.nextDB++
	if db >= databases {
		t.Fatal("more tests than databases")
	}
	return client(t, server.addr, db)
}

// redisServer is the path of the program, or the end of the test.
func redisServer(t testing.TB) string {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not on the PATH; `apt-get install redis-server` has it, and this suite then runs on it too")
	}
	return binary
}

// startRedis starts a redis-server of its own on a free loopback port and waits until it answers.
func startRedis(binary string) (addr string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "millrace-redis-")
	if err != nil {
		return "", nil, err
	}
	port, err := freeport.Port()
	if err != nil {
		return "", nil, err
	}
	cmd, err := serve(binary, dir, port, "--appendonly", "no")
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), func() {
		kill(cmd)
		_ = os.RemoveAll(dir)
	}, err
}

// serve starts a redis-server in a directory and waits until it answers.
func serve(binary, dir string, port int, args ...string) (*exec.Cmd, error) {
	args = append([]string{
		"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir, "--save", "",
		"--databases", strconv.Itoa(databases), "--logfile", filepath.Join(dir, "log"),
	}, args...)
	cmd := exec.Command(binary, args...)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	rdb := redis.NewClient(&redis.Options{
		Addr:       net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		MaxRetries: 300, MinRetryBackoff: 10 * time.Millisecond, MaxRetryBackoff: 100 * time.Millisecond,
	})
	defer func() { _ = rdb.Close() }()
	if err := rdb.Ping(context.Background()).Err(); err != nil {
		kill(cmd)
		return nil, err
	}
	return cmd, nil
}

// kill ends the process as a power cut would.
func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

func TestMain(m *testing.M) {
	logging.Disable() // go-redis reports every failed dial, and tests wait for servers to come up
	code := m.Run()
	if server.stop != nil {
		server.stop()
	}
	os.Exit(code)
}
