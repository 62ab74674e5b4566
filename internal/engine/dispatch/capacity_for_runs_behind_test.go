package dispatch

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// Workers give up no share of an engine for requests that go behind.
func TestRunsBehindDemandNothing(t *testing.T) {
	t.Parallel()
	s, now := New(Config{}), time.Unix(0, 0)
	s.Handle(now, RunRules{Run: "e", Rules: runspec.Dispatch{Behind: true}})
	s.Handle(now, EngineUp{ID: "a", Limit: 8, Models: []string{"m"}})
	for id, run := range map[ID]rollout.RunName{1: "e", 2: "r"} {
		episode := rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: run}}
		s.Handle(now, Submit{Request{ID: id, Episode: episode, Model: "m"}})
	}
	if d := s.Demand(); len(d) != 1 || d[0].Run != "r" {
		t.Errorf("demand %v, want r's alone", d)
	}
}
