package dispatch

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// TestShortestFirstStarves: behind a stream of short requests, a long one is never served without ageing, and is
// with it.
func TestShortestFirstStarves(t *testing.T) {
	t.Parallel()
	waits := func(ageing float64) int {
		s := New(Config{})
		now := time.Unix(0, 0)
		s.Handle(now, RunRules{"r", runspec.Dispatch{Order: runspec.ShortestFirst, Ageing: ageing}})
		s.Handle(now, EngineUp{ID: "a", Limit: 1, Models: []string{"m"}})
		id := ID(0)
		submit := func(output int) {
			id++
			s.Handle(now, Submit{Request{ID: id, Model: "m", PromptTokens: 10, OutputTokens: output,
				Episode: rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "r"}}}})
		}
		submit(10)
		submit(1000) // the long one is request 2
		running := ID(1)
		for second := range 1000 {
			submit(10)
			now = now.Add(time.Second)
			for _, c := range s.Handle(now, TryEnded{ID: running, Try: 1, Outcome: Served, PromptTokens: 10, OutputTokens: 10}) {
				if sent, ok := c.(Send); ok {
					running = sent.ID
				}
			}
			if running == 2 {
				return second
			}
		}
		return -1
	}
	if at := waits(0); at >= 0 {
		t.Errorf("without ageing the long request was served after %d s", at)
	}
	if at := waits(20); at < 90 || at > 110 {
		t.Errorf("with 20 tokens a second, the long request, 1980 more than the others, was served after %d s; "+
			"want about 99", at)
	}
}
