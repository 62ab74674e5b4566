package api_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
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

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/store/buffer"
)

// The reference workload: a batch is 8 groups of 42 trajectories, 7 powers by 6 samples, of 8 turns with 436 prompt and
// 24 completion tokens.
const (
	referenceGroups       = 8
	referenceTrajectories = 42
)

// BenchmarkClaim fetches a reference batch over HTTP on loopback from a process that does nothing but serve, so
// that its memory is the API's alone. Beside the latency it reports what is sent, and the most memory that the
// process held: its heap, and how far its resident memory grew. A batch four times as large shows what of it grows
// with the batch.
func BenchmarkClaim(b *testing.B) {
	b.Run("embedded", func(b *testing.B) { benchClaims(b, miniredis.RunT(b).Addr(), referenceGroups, 1, 4) })
	b.Run("real", func(b *testing.B) { benchClaims(b, redisServer(b), referenceGroups, 1, 4) })
	b.Run("real-4x", func(b *testing.B) { benchClaims(b, redisServer(b), 4*referenceGroups, 1) })
}

// benchClaims claims a batch of so many groups, by each of these numbers of readers at once.
func benchClaims(b *testing.B, redisAddr string, groups int, readers ...int) {
	stored := fill(b, redisAddr, groups)
	serving := startServing(b, redisAddr)
	for _, readers := range readers {
		var asJSON claims
		for _, way := range []struct{ name, accept, coding string }{
			{"json", "application/json", "identity"}, {"json-gzip", "application/json", "gzip"},
			{"compact", api.CompactBatch, "identity"},
		} {
			b.Run(fmt.Sprintf("%s/readers=%d", way.name, readers), func(b *testing.B) {
				request := func() *http.Request {
					req, err := http.NewRequest("POST", serving.url+"/v1/runs/demo/steps/0/claim?generation=1", nil)
					if err != nil {
						panic(err) // The address is one that was listened on.
					}
					req.Header.Set("Accept", way.accept)
					req.Header.Set("Accept-Encoding", way.coding)
					return req
				}
				serving.rest(b)
				b.ResetTimer()
				got := claimAll(b, readers, request)
				b.StopTimer()
				got.report(b, groups, serving.peak(b))
				if stored > 0 {
					b.ReportMetric(stored, "redis-B/trajectory")
				}
				switch {
				case way.name == "json":
					asJSON = got
				case asJSON.size > 0: // Not when only this way was asked for.
					b.ReportMetric(float64(asJSON.size)/float64(got.size), "x-smaller-than-json")
					b.ReportMetric(asJSON.quantile(0.5)/got.quantile(0.5), "x-faster-than-json")
				}
			})
		}
	}
}

// claims is what b.N claims of one batch took.
type claims struct {
	size int64     // of each answer, in bytes
	ms   []float64 // of each claim, from request to last byte, in order of length
	wall time.Duration
}

func (c claims) quantile(q float64) float64 { return c.ms[int(q*float64(len(c.ms)-1))] }

func (c claims) report(b *testing.B, groups int, most memory) {
	const mib = 1 << 20
	b.ReportMetric(c.quantile(0.5), "p50-ms")
	b.ReportMetric(c.quantile(0.99), "p99-ms")
	b.ReportMetric(float64(len(c.ms))/c.wall.Seconds(), "claims/s")
	b.ReportMetric(float64(c.size)/1e6, "MB/batch")
	b.ReportMetric(float64(c.size)/float64(groups*referenceTrajectories), "B/trajectory")
	b.ReportMetric(float64(most.Heap)/mib, "peak-heap-MiB")
	if most.Resident > 0 {
		b.ReportMetric(float64(most.Resident-most.ResidentAtRest)/mib, "rss-growth-MiB")
	}
}

// claimAll claims the batch b.N times, by so many readers at once, each over a connection of its own.
func claimAll(b *testing.B, readers int, request func() *http.Request) claims {
	b.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: readers, DisableCompression: true}
	defer transport.CloseIdleConnections()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		fault error
		out   claims
		taken atomic.Int64
	)
	began := time.Now()
	for range readers {
		wg.Go(func() {
			for taken.Add(1) <= int64(b.N) {
				at := time.Now()
				size, err := claimOnce(transport, request())
				took := float64(time.Since(at)) / float64(time.Millisecond)
				mu.Lock()
				if out.size == 0 {
					out.size = size
				}
				if err == nil && size != out.size {
					err = fmt.Errorf("a claim of %d bytes after one of %d: the same claim gives the same bytes", size, out.size)
				}
				if fault == nil {
					fault = err
				}
				out.ms = append(out.ms, took)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	out.wall = time.Since(began)
	must(b, fault)
	slices.Sort(out.ms)
	return out
}

func claimOnce(transport http.RoundTripper, req *http.Request) (int64, error) {
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("claim: %s", resp.Status)
	}
	return io.Copy(io.Discard, resp.Body) // Fails if the answer was cut short.
}

// fill puts a batch of reference groups into a Redis, and answers the memory that Redis needs for each of its
// trajectories, in bytes; 0 if it does not tell.
func fill(b *testing.B, redisAddr string, groups int) float64 {
	b.Helper()
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: redisAddr})
	defer func() { _ = rdb.Close() }()
	store := buffer.New(rdb, buffer.Options{Now: time.Now})
	big := spec()
	big.Buffer.GroupsPerStep = groups
	must(b, store.Open(ctx, big))
	must(b, store.SaveStatus(ctx, runstatus.RunStatus{Spec: big, State: runstatus.RunRunning}, 0))
	if _, _, err := store.Attach(ctx, run, nil); err != nil {
		b.Fatal(err)
	}
	commit := func(seq int) {
		g := referenceGroup(seq)
		_, err := store.Queue(ctx, g.Ref, []byte("s"), g.MinVersion, time.Now())
		must(b, err)
		must(b, store.Start(ctx, g.Ref))
		_, err = store.CommitGroup(ctx, g)
		must(b, err)
	}
	commit(0) // Loads the scripts.
	before := usedMemory(ctx, rdb)
	for seq := 1; seq < groups; seq++ {
		commit(seq)
	}
	return (usedMemory(ctx, rdb) - before) / float64((groups-1)*referenceTrajectories)
}

// usedMemory is what Redis says that it uses, in bytes; the embedded one says nothing, and then it is 0.
func usedMemory(ctx context.Context, rdb *redis.Client) float64 {
	info, err := rdb.InfoMap(ctx, "memory").Result()
	if err != nil {
		return 0
	}
	used, _ := strconv.ParseFloat(info["Memory"]["used_memory"], 64)
	return used
}

// redisServer starts a redis-server that keeps nothing, and answers its address.
func redisServer(b *testing.B) string {
	b.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		b.Skip("redis-server is not on the PATH; `apt-get install redis-server` has it, and this then runs on it too")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(b, err)
	addr := l.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	must(b, l.Close())
	cmd := exec.Command(binary, "--port", port, "--bind", "127.0.0.1", "--dir", b.TempDir(), "--save", "",
		"--appendonly", "no")
	must(b, cmd.Start())
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: 300, MinRetryBackoff: 10 * time.Millisecond,
		MaxRetryBackoff: 100 * time.Millisecond})
	defer func() { _ = rdb.Close() }()
	must(b, rdb.Ping(context.Background()).Err())
	return addr
}

// referenceGroup is a group like those of real games: the turns of one agent share the beginning of their prompts, the
// samples of a group share the first turn's, and a few tokens are frequent, many are rare.
func referenceGroup(seq int) *rollout.Group {
	const turns, prompt, completion = 8, 436, 24
	rng := rand.New(rand.NewPCG(uint64(seq), 0))
	zipf := rand.NewZipf(rng, 1.1, 8, 150_000)
	text := func(n int) []int32 {
		ids := make([]int32, n)
		for i := range ids {
			ids[i] = int32(zipf.Uint64())
		}
		return ids
	}
	g := group(seq)
	g.Trajectories = nil
	rules, boards := text(prompt/2), map[string][]int32{}
	for sample := range 6 {
		for _, agent := range []string{"AUSTRIA", "ENGLAND", "FRANCE", "GERMANY", "ITALY", "RUSSIA", "TURKEY"} {
			if boards[agent] == nil {
				boards[agent] = text(prompt - len(rules))
			}
			t := rollout.Trajectory{ID: rollout.EpisodeRef{GroupRef: g.Ref, Sample: sample}.TrajectoryID(agent), Sample: sample,
				Agent: agent, Reward: rng.Float64()}
			for turn := range turns {
				board := boards[agent]
				if turn > 0 {
					board = text(prompt - len(rules))
				}
				t.Turns = append(t.Turns, rollout.Turn{
					Phase: fmt.Sprintf("S%dM", 1901+turn), Engine: "engine-0", FinishReason: rollout.FinishStop,
					PromptTokenIDs: slices.Concat(rules, board), TokenIDs: text(completion), Logprobs: logprobs(rng, completion),
					Constraint: rollout.Constraint{Kind: rollout.RegexConstraint, Pattern: pattern(board)},
				})
			}
			g.Trajectories = append(g.Trajectories, t)
		}
	}
	rollout.Normalise(g.Trajectories)
	return g
}

// pattern is a regex as long as those of Diplomacy, the same for the same board.
func pattern(board []int32) string {
	var b strings.Builder
	for _, id := range board[:80] {
		fmt.Fprintf(&b, "%04d|", id%10_000)
	}
	return b.String()
}

// logprobs are 0 where the constraint left no choice, as for a third of the tokens.
func logprobs(rng *rand.Rand, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		if rng.IntN(3) > 0 {
			out[i] = -float32(rng.ExpFloat64())
		}
	}
	return out
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// BenchmarkClaimToTensors has the Python client make padded arrays of the same batch, from JSON and from the compact
// encoding. PYTHON names an interpreter that has numpy and zstandard.
func BenchmarkClaimToTensors(b *testing.B) {
	python := cmp.Or(os.Getenv("PYTHON"), "python3")
	if err := exec.CommandContext(b.Context(), python, "-c", "import numpy, zstandard").Run(); err != nil {
		b.Skipf("%s has no numpy and zstandard: %v", python, err)
	}
	addr := miniredis.RunT(b).Addr()
	fill(b, addr, referenceGroups)
	cmd := exec.CommandContext(b.Context(), python, "-B", "claim_to_tensors.py", startServing(b, addr).url)
	cmd.Dir = "../../../clients/python"
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	b.Logf("\n%s", out)
}
