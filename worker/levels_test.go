package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/buffer"
	"github.com/millrace/millrace/internal/rollout"
)

// serving is API servers as `millrace server` runs them, on one embedded Redis, without Temporal, and a run that
// was opened.
type serving struct {
	t       *testing.T
	cfg     config.Service
	servers []string // URLs
	buffer  *buffer.Store
	rdb     *redis.Client
}

func deploy(t *testing.T, servers int) *serving {
	t.Helper()
	d := &serving{t: t, cfg: config.DefaultService()}
	d.cfg.Redis.URL = "redis://" + miniredis.RunT(t).Addr() + "/0"
	d.cfg.Temporal.Address = freeAddress(t) // nobody is there
	opts, err := redis.ParseURL(d.cfg.Redis.URL)
	if err != nil {
		t.Fatal(err)
	}
	d.rdb = redis.NewClient(opts)
	t.Cleanup(func() { _ = d.rdb.Close() })
	d.buffer = buffer.New(d.rdb, buffer.Options{Prefix: d.cfg.Redis.Prefix})
	for range servers {
		cfg := d.cfg
		cfg.Listen = freeAddress(t)
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- Serve(ctx, cfg, "test", slog.New(slog.DiscardHandler)) }()
		t.Cleanup(func() {
			stop()
			if err := <-ended; err != nil {
				t.Errorf("server: %v", err)
			}
		})
		d.servers = append(d.servers, "http://"+cfg.Listen)
	}
	for _, server := range d.servers {
		d.until("a server that answers", func() bool { return d.text(server+"/readyz") != "" })
	}
	return d
}

func (d *serving) open(name rollout.RunName) rollout.Spec {
	d.t.Helper()
	spec := rollout.Spec{
		Name: name, Model: "m", Steps: 3, Environment: rollout.Environment{Kind: "tictactoe"}, Group: rollout.GroupSpec{Samples: 2, MinSamples: 2},
		Buffer: rollout.BufferSpec{Depth: 1, GroupsPerStep: 1, MaxStaleness: 1, OnStale: rollout.DropStale, Prefill: rollout.PrefillBatch},
	}
	if err := d.buffer.Open(d.t.Context(), spec, ""); err != nil {
		d.t.Fatal(err)
	}
	return spec
}

// until waits for something to become true.
func (d *serving) until(what string, true func() bool) {
	d.t.Helper()
	for deadline := time.Now().Add(time.Minute); !true(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			d.t.Fatalf("there was never %s", what)
		}
	}
}

// text is what a server answers, or nothing.
func (d *serving) text(url string) string {
	resp, err := http.Get(url)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return ""
	}
	return string(body)
}

// get reads a JSON answer.
func (d *serving) get(url string, into any) {
	d.t.Helper()
	if err := json.Unmarshal([]byte(d.text(url)), into); err != nil {
		d.t.Fatalf("%s: %v", url, err)
	}
}

// metric is the sum of a metric's series of a run, as a server exposes them.
func (d *serving) metric(server, name string, run rollout.RunName) float64 {
	d.t.Helper()
	sum := 0.0
	for line := range strings.Lines(d.text(server + "/metrics")) {
		if strings.HasPrefix(line, name+"{") && strings.Contains(line, fmt.Sprintf("run=%q", run)) {
			v, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:]), 64)
			if err != nil {
				d.t.Fatal(err)
			}
			sum += v
		}
	}
	return sum
}

// TestAWaitingTrainerIsSeenEverywhere: a trainer waits at one server of two. Both list the wait, and both count its
// seconds while it lasts, once.
func TestAWaitingTrainerIsSeenEverywhere(t *testing.T) {
	t.Parallel()
	d := deploy(t, 2)
	d.open("demo")
	began := time.Now()
	claimed := make(chan int, 1)
	go func() {
		resp, err := http.Post(d.servers[0]+"/v1/runs/demo/steps/0/claim?wait=50s", "application/json", bytes.NewReader(nil))
		if err != nil {
			claimed <- 0
			return
		}
		defer resp.Body.Close()
		claimed <- resp.StatusCode
	}()
	const starved = "millrace_trainer_starved_seconds_total"
	for _, server := range d.servers {
		d.until("a wait in the list of "+server, func() bool {
			var list struct {
				Waits []struct{ What, Owner string }
			}
			d.get(server+"/v1/runs/demo/waits", &list)
			return len(list.Waits) > 0 && list.Waits[0].What == "batch" && strings.HasPrefix(list.Waits[0].Owner, "trainer, step 0")
		})
		d.until("a trainer that starves, in the metrics of "+server, func() bool { return d.metric(server, starved, "demo") > 5 })
	}
	group := &rollout.Group{Ref: rollout.GroupRef{Run: "demo"}, Trajectories: []rollout.Trajectory{{ID: "demo/0/0/X", Agent: "X", Turns: []rollout.Turn{{PromptTokenIDs: []int32{1}, TokenIDs: []int32{2}, Logprobs: []float32{0}, FinishReason: "stop"}}}}}
	if _, err := d.buffer.Queue(t.Context(), group.Ref, []byte("{}"), 0, time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.buffer.CommitGroup(t.Context(), group); err != nil {
		t.Fatal(err)
	}
	if status := <-claimed; status != http.StatusOK {
		t.Fatalf("the claim ended with status %d", status)
	}
	waited := time.Since(began).Seconds()
	d.until("a sample without a wait", func() bool {
		before := d.metric(d.servers[1], starved, "demo")
		time.Sleep(2 * levelEvery)
		return d.metric(d.servers[1], starved, "demo") == before
	})
	for _, server := range d.servers {
		if got := d.metric(server, starved, "demo"); got > waited+0.5 || got < waited-levelEvery.Seconds()-1.5 {
			t.Errorf("%s counts %.1f s of a wait of %.1f s", server, got, waited)
		}
	}
}
