package server

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/runsampler"
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

// TestAWaitingTrainerIsSeenEverywhere: a trainer waits at one server of two. Both list the wait, and both count its
// seconds while it lasts, once.
func TestAWaitingTrainerIsSeenEverywhere(t *testing.T) {
	t.Parallel()
	first := serveAPI(t, "", nil)
	second := serveAPI(t, fmt.Sprintf("redis: {url: redis://%s/0}\n", first.redis.Addr()), nil)
	store := first.store()
	first.open(store, "demo")
	began := time.Now()
	claimed := make(chan response, 1)
	go func() {
		got, _ := first.call("POST", "/v1/runs/demo/steps/0/claim?wait=50s", "", "") // an error leaves status 0
		claimed <- got
	}()
	const starved = "millrace_trainer_starved_seconds_total"
	for _, s := range []*served{first, second} {
		s.until("a wait in the list", func() bool {
			return strings.Contains(s.want(http.StatusOK, "GET", "/v1/runs/demo/waits", "", "").body,
				`"waits":[{"what":"batch","owner":"trainer, step 0`)
		})
		s.until("a trainer that starves, in the metrics", func() bool { return s.metric(starved, "demo") > 5 })
	}
	first.ready(store, "demo", 0)
	if got := <-claimed; got.status != http.StatusOK {
		t.Fatalf("the claim ended with status %d: %s", got.status, got.body)
	}
	waited := time.Since(began).Seconds()
	second.until("a sample without a wait", func() bool {
		before := second.metric(starved, "demo")
		time.Sleep(2 * runsampler.Interval)
		return second.metric(starved, "demo") == before
	})
	for _, s := range []*served{first, second} {
		if got := s.metric(starved, "demo"); got > waited+0.5 || got < waited-runsampler.Interval.Seconds()-1.5 {
			t.Errorf("%s counts %.1f s of a wait of %.1f s", s.url, got, waited)
		}
	}
}
