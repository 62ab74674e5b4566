package server

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/observe/runsampler"
	"github.com/millrace/millrace/internal/rollout"
)

// metric is the sum of a metric's series of a run, as a server exposes them.
func (s *served) metric(name string, run rollout.RunName) float64 {
	s.t.Helper()
	sum := 0.0
	for line := range strings.Lines(s.want(http.StatusOK, "GET", "/metrics", "", "").body) {
		if strings.HasPrefix(line, name+"{") && strings.Contains(line, fmt.Sprintf("run=%q", run)) {
			v, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:]), 64)
			if err != nil {
				s.t.Fatal(err)
			}
			sum += v
		}
	}
	return sum
}

// TestAWaitingTrainerIsCountedOnce: a trainer waits at one server of two. Both list the wait, and the sum over both of
// its seconds, while it lasts, is the wait: one server shows the metrics of the deployment.
func TestAWaitingTrainerIsCountedOnce(t *testing.T) {
	t.Parallel()
	first := serveAPI(t, "", nil)
	second := serveAPI(t, fmt.Sprintf("redis: {url: redis://%s/0}\n", first.redis.Addr()), nil)
	store := first.store()
	first.open(store, "demo")
	first.ready(store, "demo", 0)
	first.want(http.StatusOK, "POST", "/v1/runs/demo/steps/0/claim", "", "")
	first.want(http.StatusCreated, "PUT", "/v1/runs/demo/steps/0", "", `{"wall_seconds":1}`)
	claimed := make(chan response, 1)
	go func() {
		got, _ := first.call("POST", "/v1/runs/demo/steps/1/claim?wait=50s", "", "") // an error leaves status 0
		claimed <- got
	}()
	starved := func() float64 {
		const name = "millrace_trainer_starved_seconds_total"
		return first.metric(name, "demo") + second.metric(name, "demo")
	}
	for _, s := range []*served{first, second} {
		s.until("a wait in the list", func() bool {
			return strings.Contains(s.want(http.StatusOK, "GET", "/v1/runs/demo/waits", "", "").body,
				`"waits":[{"what":"batch","owner":"trainer, step 1`)
		})
	}
	first.until("a trainer that starves, in the metrics", func() bool { return starved() > 5 })
	first.ready(store, "demo", 1)
	if got := <-claimed; got.status != http.StatusOK {
		t.Fatalf("the claim ended with status %d: %s", got.status, got.body)
	}
	record, err := store.Step(t.Context(), "demo", 1)
	if err != nil {
		t.Fatal(err)
	}
	waited := record.Service.GrantedAt.Sub(record.Service.FirstAskedAt).Seconds()
	second.until("all of the wait, in the metrics", func() bool { return starved() > waited-0.1 })
	time.Sleep(2 * runsampler.Interval) // for whoever counts it once more
	if got := starved(); got > waited+0.1 {
		t.Errorf("the servers count %.1f s of a wait of %.1f s", got, waited)
	}
}
