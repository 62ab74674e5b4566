package api_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/api"
	"github.com/millrace/millrace/internal/buffer"
	"github.com/millrace/millrace/internal/rollout"
)

// referenceGroup is a group of the reference workload: 42 trajectories of 8 turns, 436 prompt and 24 completion tokens each.
func referenceGroup(seq int) *rollout.Group {
	rng := rand.New(rand.NewPCG(uint64(seq), 0))
	g := group(seq)
	g.Trajectories = nil
	for sample := range 6 {
		for _, agent := range []string{"AUSTRIA", "ENGLAND", "FRANCE", "GERMANY", "ITALY", "RUSSIA", "TURKEY"} {
			t := rollout.Trajectory{ID: rollout.EpisodeRef{GroupRef: g.Ref, Sample: sample}.TrajectoryID(agent), Sample: sample, Agent: agent, Reward: rng.Float64()}
			for range 8 {
				t.Turns = append(t.Turns, referenceTurn(rng))
			}
			g.Trajectories = append(g.Trajectories, t)
		}
	}
	rollout.Normalise(g.Trajectories)
	return g
}

func referenceTurn(rng *rand.Rand) rollout.Turn {
	turn := rollout.Turn{Phase: "S1901M", Engine: "engine-0", FinishReason: rollout.FinishStop}
	for range 436 {
		turn.PromptTokenIDs = append(turn.PromptTokenIDs, rng.Int32N(152_000))
	}
	for range 24 {
		turn.TokenIDs = append(turn.TokenIDs, rng.Int32N(152_000))
		turn.Logprobs = append(turn.Logprobs, -rng.Float32())
	}
	return turn
}

// BenchmarkClaim fetches a batch of the reference workload, 8 groups of 42 trajectories, over HTTP on loopback.
func BenchmarkClaim(b *testing.B) {
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(b).Addr()})
	b.Cleanup(func() { _ = rdb.Close() })
	store := buffer.New(rdb, buffer.Options{Now: time.Now})
	server := serveStore(b, store)
	for _, way := range []struct{ name, accept, coding string }{
		{"json", "application/json", "identity"}, {"json-gzip", "application/json", "gzip"}, {"compact", api.CompactBatch, "identity"},
	} {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			var size int64
			for b.Loop() {
				req, err := http.NewRequest("POST", server+"/v1/runs/demo/steps/0/claim?epoch=1", nil)
				if err != nil {
					b.Fatal(err)
				}
				req.Header.Set("Accept", way.accept)
				req.Header.Set("Accept-Encoding", way.coding)
				resp, err := http.DefaultTransport.RoundTrip(req)
				if err != nil || resp.StatusCode != 200 {
					b.Fatal(err, resp)
				}
				size, err = io.Copy(io.Discard, resp.Body)
				if err != nil {
					b.Fatal(err)
				}
				_ = resp.Body.Close()
			}
			b.ReportMetric(float64(size)/(8*42), "B/trajectory")
			b.ReportMetric(float64(size)/1e6, "MB/batch")
		})
	}
}

// serveStore serves a store that holds a batch of the reference workload, and answers the server's address.
func serveStore(b *testing.B, store *buffer.Store) string {
	b.Helper()
	ctx := context.Background()
	big := spec()
	big.Buffer.GroupsPerStep = 8
	must(b, store.Open(ctx, big))
	must(b, store.SaveStatus(ctx, rollout.RunStatus{Spec: big, State: rollout.RunRunning}))
	for seq := range 8 {
		g := referenceGroup(seq)
		_, err := store.Queue(ctx, g.Ref, []byte("s"), time.Now())
		must(b, err)
		must(b, store.Start(ctx, g.Ref))
		_, err = store.CommitGroup(ctx, g)
		must(b, err)
	}
	if _, _, err := store.Attach(ctx, run, nil); err != nil {
		b.Fatal(err)
	}
	s, err := api.New(api.Config{Listen: "127.0.0.1:0"}, api.Deps{
		Control: &deaf{}, Store: store, Fleet: noFleet{}, Events: nilEvents{},
		ReadSpec: func([]byte) (s rollout.Spec, err error) { return s, nil },
	})
	must(b, err)
	return listen(b, s)
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// listen serves s on a free loopback port until the test ends.
func listen(tb testing.TB, s *api.Server) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(tb, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	tb.Cleanup(func() {
		cancel()
		must(tb, <-served)
	})
	return "http://" + l.Addr().String()
}
