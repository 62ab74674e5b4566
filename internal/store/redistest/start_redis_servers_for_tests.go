// Package redistest gives tests real Redis servers: an empty database of one that a package's tests share, one that may
// be killed, or a cluster. Where there is no redis-server, the test is skipped, and says how to get it.
//
// Start reading at Real.
package redistest

import (
	"context"
	"errors"
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

	"github.com/millrace/millrace/internal/kit/freeport"
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
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it is killed
		close(ended)
	}()
	kill = func() {
		select {
		case <-ended: // its number may be another process's by now
			return
		default:
		}
		children := childrenOf(cmd.Process.Pid)
		_ = cmd.Process.Kill() // it may be gone already
		for _, pid := range children {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		<-ended
	}
	addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if err := answers(addr, ended); err != nil {
		kill()
		log, _ := os.ReadFile(filepath.Join(dir, "log")) // says why, if it is there
		t.Fatalf("%v; redis-server says:\n%s", err, log)
	}
	return addr, kill
}

// answers waits until the server at an address answers, or has ended.
func answers(addr string, ended <-chan struct{}) error {
	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1})
	defer func() { _ = rdb.Close() }()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(time.Minute); ; {
		err := rdb.Ping(context.Background()).Err()
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return err
		}
		select {
		case <-ended:
			return errors.New("redis-server ended as soon as it was started")
		case <-look.C:
		}
	}
}

// childrenOf lists the processes that a server has forked to rewrite its log or a snapshot, and that would outlive it,
// where the kernel says so.
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
