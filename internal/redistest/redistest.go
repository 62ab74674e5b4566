// Package redistest gives tests real Redis servers: an empty database of one that a package's tests share, one that may
// be killed, or a cluster. Where there is no redis-server, the test is skipped, and says how to get it.
//
// Start reading at Real.
package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/millrace/millrace/internal/freeport"
)

// Main runs a package's tests, and ends the server that they share.
func Main(m *testing.M) (code int) {
	logging.Disable() // go-redis reports every failed dial, and tests wait for servers to come up
	defer func() {
		if shared.stop != nil {
			shared.stop()
		}
	}()
	return m.Run()
}

// shared is the one redis-server of the test process; each test gets a database of its own.
var shared struct {
	mu     sync.Mutex
	nextDB int
	addr   string
	stop   func()
}

const databases = 1024

// Real is an empty database of a redis-server that ends with the package's tests.
func Real(t testing.TB) redis.UniversalClient {
	t.Helper()
	binary(t)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.addr == "" {
		dir, err := os.MkdirTemp("", "millrace-redis-")
		if err != nil {
			t.Fatal(err)
		}
		addr, kill := Start(t, dir, Port(t), "--appendonly", "no")
		shared.addr, shared.stop = addr, func() {
			kill()
			_ = os.RemoveAll(dir) // a temporary folder
		}
	}
	if shared.nextDB >= databases {
		t.Fatal("more tests than databases")
	}
	shared.nextDB++
	return Client(t, shared.addr, shared.nextDB-1)
}

// Client is a client of the server at an address, for as long as the test takes.
func Client(t testing.TB, addr string, db int) redis.UniversalClient {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr, DB: db})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Port is a free port of loopback.
func Port(t testing.TB) int {
	t.Helper()
	port, err := freeport.Port()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// binary is the path of the program, or the end of the test.
func binary(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not on the PATH; `apt-get install redis-server` has it, and this suite then runs on it too")
	}
	return path
}

// Start starts a redis-server that keeps its data in a folder, waits until it answers, and returns how to kill it, as a
// power cut would.
func Start(t testing.TB, dir string, port int, args ...string) (addr string, kill func()) {
	t.Helper()
	cmd := exec.Command(binary(t), append([]string{
		"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir, "--save", "",
		"--databases", strconv.Itoa(databases), "--logfile", filepath.Join(dir, "log"),
	}, args...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		children := childrenOf(cmd.Process.Pid)
		_ = cmd.Process.Kill() // it may be gone already
		for _, pid := range children {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		_ = cmd.Wait()
	}
	addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	rdb := redis.NewClient(&redis.Options{
		Addr: addr, MaxRetries: 300, MinRetryBackoff: 10 * time.Millisecond, MaxRetryBackoff: 100 * time.Millisecond,
	})
	defer func() { _ = rdb.Close() }()
	if err := rdb.Ping(context.Background()).Err(); err != nil {
		kill()
		t.Fatal(err)
	}
	return addr, kill
}

// childrenOf is what a server has forked to write its log or a snapshot anew, and what would outlive it, where the
// kernel says so.
func childrenOf(pid int) (children []int) {
	told, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil
	}
	for _, child := range strings.Fields(string(told)) {
		if n, err := strconv.Atoi(child); err == nil {
			children = append(children, n)
		}
	}
	return children
}
