package api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/face/api"

	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/store/buffer"
)

// servingFrom names the variable with the Redis that this process, started again, shall serve.
const servingFrom = "MILLRACE_TEST_SERVING_FROM"

// TestMain runs the tests, or is the serving process of a benchmark.
func TestMain(m *testing.M) {
	addr := os.Getenv(servingFrom)
	if addr == "" {
		os.Exit(m.Run())
	}
	if err := serveFrom(addr, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "serving process:", err)
		os.Exit(1)
	}
}

// serveFrom serves the API and a meter of this process on loopback, writes their addresses as one line, and ends
// with in.
func serveFrom(redisAddr string, in io.Reader, out io.Writer) error {
	rdb := redis.NewClient(&redis.Options{Addr: redisAddr})
	defer func() { _ = rdb.Close() }()
	s, err := newServer(api.Config{Listen: "127.0.0.1:0"}, api.Deps{
		Control: &deaf{}, Store: buffer.New(rdb, buffer.Options{Now: time.Now}), Fleet: smallFleet{}, Workers: oneWorker{},
		Events:   nilEvents{},
		ReadSpec: func([]byte) (s runspec.Spec, err error) { return s, nil },
	})
	if err != nil {
		return err
	}
	service, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	control, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	m := &memoryGauge{}
	go m.watch(ctx)
	go func() { _ = http.Serve(control, m) }() // Ends with the process.
	go func() {
		_, _ = io.Copy(io.Discard, in) // The parent closes it, or is gone.
		stop()
	}()
	fmt.Fprintf(out, "%s %s\n", service.Addr(), control.Addr())
	return s.Serve(ctx, service)
}

// memory is what a process held at most, in bytes. The resident figures are 0 where the system does not tell.
type memory struct {
	Heap           int64 // in objects, dead ones that are not collected yet included
	Resident       int64
	ResidentAtRest int64
}

// memoryGauge answers POST with this process at rest, and GET with the most that it has held since.
type memoryGauge struct {
	heap   atomic.Int64
	atRest atomic.Int64
}

// watch looks at the heap a thousand times per second.
func (m *memoryGauge) watch(ctx context.Context) {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for ctx.Err() == nil {
		metrics.Read(heap)
		m.heap.Store(max(m.heap.Load(), int64(heap[0].Value.Uint64())))
		<-look.C
	}
}

func (m *memoryGauge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		debug.FreeOSMemory()
		_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // Forgets the peak; elsewhere there is none to forget.
		m.heap.Store(0)
		m.atRest.Store(ofProcess("VmRSS"))
	}
	_ = json.NewEncoder(w).Encode(memory{Heap: m.heap.Load(), Resident: ofProcess("VmHWM"),
		ResidentAtRest: m.atRest.Load()})
}

// ofProcess is a figure of Linux about this process, in bytes; 0 if there is none.
func ofProcess(name string) int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if value, is := strings.CutPrefix(line, name+":"); is {
			var kib int64
			_, _ = fmt.Sscan(value, &kib)
			return kib << 10
		}
	}
	return 0
}

// serving is a process that serves the API, as its parent sees it.
type serving struct{ url, memoryGauge string }

// startServing starts this binary again to serve a Redis until the benchmark ends.
func startServing(b *testing.B, redisAddr string) *serving {
	b.Helper()
	self, err := os.Executable()
	must(b, err)
	var said bytes.Buffer
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), servingFrom+"="+redisAddr)
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	must(b, err)
	out, err := cmd.StdoutPipe()
	must(b, err)
	must(b, cmd.Start())
	b.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			b.Errorf("serving process: %v: %s", err, &said)
		}
	})
	s := &serving{}
	line, err := bufio.NewReader(out).ReadString('\n')
	if _, scanned := fmt.Sscan(line, &s.url, &s.memoryGauge); err != nil || scanned != nil {
		b.Fatalf("the serving process said %q: %v", line, err)
	}
	s.url, s.memoryGauge = "http://"+s.url, "http://"+s.memoryGauge
	return s
}

// rest lets the process give back what it does not need, and forgets its peak.
func (s *serving) rest(b *testing.B) {
	b.Helper()
	resp, err := http.Post(s.memoryGauge, "", nil)
	must(b, err)
	must(b, resp.Body.Close())
}

// peak is the most that the process has held since it was at rest.
func (s *serving) peak(b *testing.B) (m memory) {
	b.Helper()
	resp, err := http.Get(s.memoryGauge)
	must(b, err)
	defer func() { _ = resp.Body.Close() }()
	must(b, json.NewDecoder(resp.Body).Decode(&m))
	return m
}
