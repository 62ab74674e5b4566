package seed003

import (
	"testing"
	"time"

	"github.com/millrace/millrace/trials/experiment/arrivals"
	"github.com/millrace/millrace/trials/experiment/openloop"
	"github.com/millrace/millrace/trials/experiment/wholebatch"
)

// surrogate is the surrogate of the note's 1,000 requests, 200 times as fast, from the first arrival on.
func surrogate(t *testing.T) []openloop.Request {
	t.Helper()
	trace, err := arrivals.ReadTrace("burstgpt-surrogate")
	if err != nil {
		t.Fatal(err)
	}
	first := trace.Arrivals[0].At
	var requests []openloop.Request
	for _, a := range trace.Arrivals {
		requests = append(requests, openloop.Request{At: (a.At - first) / 200, Prompt: a.Prompt, Output: a.Output,
			Predicted: a.Output})
	}
	return requests
}

// TestControllerCollapses: when one long request makes every batch late, whatever its size, the controller shrinks
// batches to one, and when all is well again it does not come back.
func TestControllerCollapses(t *testing.T) {
	t.Parallel()
	c := newController(Default(DynamicNoBins, 1, nil))
	if got := c.target(); got != 64 {
		t.Errorf("it begins with %d, want the middle, 64", got)
	}
	for range 200 {
		c.learn(2, 500, c.target())
	}
	if got := c.target(); got != 1 {
		t.Errorf("after 200 late batches: %d, want 1", got)
	}
	for range 200 {
		c.learn(0.1, 500, c.target())
	}
	if got := c.target(); got > 2 {
		t.Errorf("after 200 early batches: %d; it cannot grow, since a third of so small a batch is no request", got)
	}
}

// TestPlayServesEverybody: each request is served once, by an engine that works on one batch at a time.
func TestPlayServesEverybody(t *testing.T) {
	t.Parallel()
	requests := surrogate(t)
	for _, policy := range []Policy{StaticFIFO, DynamicNoBins, MultiBinDynamic} {
		for _, engines := range []int{1, 4} {
			out, err := Play(requests, Default(policy, engines, wholebatch.Seed003Time().Seconds))
			if err != nil {
				t.Fatal(err)
			}
			free := make([]time.Duration, engines)
			served := 0
			for _, b := range out.Batches {
				served += len(b.Requests)
				if b.Sent < free[b.Engine] {
					t.Fatalf("%s: engine %d began a batch at %v and was busy until %v", policy, b.Engine, b.Sent, free[b.Engine])
				}
				free[b.Engine] = out.Served[b.Requests[0]].Ended
			}
			if served != len(requests) {
				t.Errorf("%s: %d of %d requests were served", policy, served, len(requests))
			}
		}
	}
	if _, err := Play(nil, Default(StaticFIFO, 1, nil)); err == nil {
		t.Error("no requests were played")
	}
	if _, err := Play(requests, Default("other", 1, nil)); err == nil {
		t.Error("an unknown policy was played")
	}
}

// TestMarginOfATenth: with room for 10,000 tokens and requests of 500 the note allows 18 in a batch, whatever their
// deviation. Equation 12 of the paper allows 16 (package openloop tests it at work).
func TestMarginOfATenth(t *testing.T) {
	t.Parallel()
	cfg := Default(DynamicNoBins, 1, nil)
	cfg.Memory = 10_000
	if got := newController(cfg).target(); got != 18 {
		t.Errorf("got %d, want 18", got)
	}
}
