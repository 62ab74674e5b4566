package serving

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/kit/processortime"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/trials/stack"
)

const (
	watchingBrowsers = 50
	idleReaders      = 200
	claimsInRound    = 300
	watcherRounds    = 4
)

// TestWhatWatchersCost measures what 50 browsers that watch a run, and 200 clients that open a stream and never read,
// cost a real server, and what a claim takes beside them and without them, by turns: `make bench-watchers`.
func TestWhatWatchersCost(t *testing.T) {
	if os.Getenv("MILLRACE_WATCHERS") == "" {
		t.Skip("takes minutes; run it with `make bench-watchers`")
	}
	redis, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("needs redis-server")
	}
	s, err := stack.Start(t.Context(), stack.Config{
		Programs: stack.Programs{Millrace: os.Getenv("MILLRACE_BINARY"), Temporal: os.Getenv("MILLRACE_TEMPORAL"),
			Redis: redis},
		Dir: t.TempDir(), Workers: 1, Engines: 2, EngineArgs: []string{"--speed", "30"}, Volatile: true,
		Service: "retain_steps: 2\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	client, err := s.Client()
	if err != nil {
		t.Fatal(err)
	}
	watched(t, s, client)
	claim := claimAgain(t, client)
	type side struct{ cpu, memory, claims []float64 }
	var alone, beside side
	measure := func(of *side) {
		cpu, began := serverSec(t, s), time.Now()
		for range claimsInRound {
			at := time.Now()
			claim()
			of.claims = append(of.claims, 1e3*time.Since(at).Seconds())
			time.Sleep(20 * time.Millisecond)
		}
		of.cpu = append(of.cpu, (serverSec(t, s)-cpu)/time.Since(began).Seconds())
		of.memory = append(of.memory, residentMiB(t, s.PID("server")))
	}
	for range 200 { // connections and caches are warm
		claim()
	}
	for range watcherRounds {
		measure(&alone)
		leave := watch(t, "http://"+s.Server)
		time.Sleep(5 * time.Second) // what begins has begun
		measure(&beside)
		leave()
		time.Sleep(5 * time.Second)
	}
	mean := func(v []float64) (sum float64) {
		for _, x := range v {
			sum += x / float64(len(v))
		}
		return sum
	}
	cpu, memory := mean(beside.cpu)-mean(alone.cpu), slices.Max(beside.memory)-alone.memory[0]
	t.Logf("machine: %v, load %s", processortime.ThisMachine(), processortime.Load())
	t.Logf("server: %.1f %% of a core alone, %.1f %% watched: %.1f %% for the watchers; memory grew by %.0f MiB",
		100*mean(alone.cpu), 100*mean(beside.cpu), 100*cpu, memory)
	for _, q := range []float64{0.5, 0.95, 0.99} {
		a, b := quantile(alone.claims, q), quantile(beside.claims, q)
		t.Logf("claim, quantile %.2f: %.2f ms alone, %.2f ms watched, ratio %.2f", q, a, b, b/a)
	}
	if cpu > 0.10 || memory > 100 {
		t.Errorf("watchers cost more than 10 %% of a core or 100 MiB")
	}
}

func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func serverSec(t *testing.T, s *stack.Stack) float64 {
	t.Helper()
	sec, err := processortime.Of(s.PID("server"))
	if err != nil {
		t.Fatal(err)
	}
	return sec
}

// residentMiB is the memory that a process has.
func residentMiB(t *testing.T, pid int) float64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skip("memory of processes is not told here: ", err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, is := strings.CutPrefix(line, "VmRSS:"); is {
			kB, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64) // the kernel wrote it
			return kB / 1024
		}
	}
	return 0
}

// watched starts a run that goes on all the while, with a trainer.
func watched(t *testing.T, s *stack.Stack, client *apiclient.Client) {
	t.Helper()
	start(t, client, "watched", 10_000)
	err := s.Spawn("trainer", true, os.Getenv("MILLRACE_BINARY"), "trainer", "demo", "watched", "--server",
		"http://"+s.Server, "--speed", "30")
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the watched run's first steps", func() bool {
		var now runstatus.RunStatus
		answer, err := client.Ask(t.Context(), http.MethodGet, "/v1/runs/watched", nil)
		return err == nil && json.Unmarshal(answer.Body, &now) == nil && now.NextStep > 3
	})
}

func start(t *testing.T, client *apiclient.Client, name rollout.RunName, steps int) {
	t.Helper()
	err := client.StartRun(t.Context(), runspec.Spec{Name: name, Model: "Qwen/Qwen2.5-7B-Instruct", Steps: steps,
		Environment: runspec.Environment{Kind: "diplomacy", Options: []byte(`{"horizon_years": 1}`)},
		Group:       runspec.GroupSpec{Samples: 4, MinSamples: 4},
		Sampling:    rollout.Sampling{Temperature: 0.8, TopP: 1, MaxTokens: 80},
		Buffer:      runspec.BufferSpec{Depth: 2, GroupsPerStep: 2, MaxStaleness: 4, OnStale: runspec.DropStale},
		Adapters:    runspec.AdapterSpec{Rank: 8, PathPrefix: os.TempDir()},
		Dispatch:    runspec.Dispatch{Policy: runspec.LeastTokens},
		Timeouts: runspec.Timeouts{Completion: rollout.Duration(time.Minute), Episode: rollout.Duration(15 * time.Minute),
			Heartbeat: rollout.Duration(10 * time.Second)}})
	if err != nil {
		t.Fatal(err)
	}
}

func await(t *testing.T, what string, there func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); !there(); time.Sleep(500 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not there", what)
		}
	}
}

// claimAgain claims the first step of a run of its own again and again: each time the same batch.
func claimAgain(t *testing.T, client *apiclient.Client) func() {
	t.Helper()
	start(t, client, "claimed", 1)
	path := "/v1/runs/claimed/steps/0/claim?wait=30s&generation="
	var attached struct {
		Generation int64 `json:"generation"`
	}
	answer, err := client.Ask(t.Context(), http.MethodPost, "/v1/runs/claimed/trainer", struct{}{})
	if err != nil || json.Unmarshal(answer.Body, &attached) != nil {
		t.Fatal(err)
	}
	path += fmt.Sprint(attached.Generation)
	claim := func() int {
		answer, err := client.Ask(t.Context(), http.MethodPost, path, nil)
		if err != nil {
			t.Fatal(err)
		}
		return answer.Status
	}
	await(t, "the batch that is claimed", func() bool { return claim() == http.StatusOK })
	return func() {
		if status := claim(); status != http.StatusOK {
			t.Fatalf("claim: %d", status)
		}
	}
}

// watch has browsers follow the run, each as the page's script does, and clients open streams that they never read.
func watch(t *testing.T, server string) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var pages atomic.Int64
	browser := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * watchingBrowsers}}
	for range watchingBrowsers {
		all.Go(func() {
			for ctx.Err() == nil {
				follow(ctx, browser, server, &pages)
			}
		})
	}
	for range idleReaders {
		all.Go(func() {
			neverRead(ctx, strings.TrimPrefix(server, "http://"), "/v1/runs/watched/events")
		})
	}
	return func() {
		cancel()
		all.Wait()
		browser.CloseIdleConnections()
		t.Logf("%d browsers took in %d pages beside %d idle readers", watchingBrowsers, pages.Load(), idleReaders)
	}
}

// follow asks for the run's page again and again, as the page's script does.
func follow(ctx context.Context, browser *http.Client, server string, pages *atomic.Int64) {
	for tag := ""; retry.Pause(ctx, 2*time.Second) == nil; {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/runs/watched", nil)
		if err != nil {
			return
		}
		if tag != "" {
			req.Header.Set("If-None-Match", tag)
		}
		page, err := browser.Do(req)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, page.Body) // the next one shows whether the server goes on
		_ = page.Body.Close()
		tag = page.Header.Get("ETag")
		pages.Add(1)
	}
}

// neverRead opens a stream and reads nothing of it.
func neverRead(ctx context.Context, address, path string) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	if tcp, is := conn.(*net.TCPConn); is {
		_ = tcp.SetReadBuffer(1024) // as small as the system allows
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n\r\n", path,
		address); err != nil {
		return
	}
	<-ctx.Done()
}
