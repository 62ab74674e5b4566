package workflows_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/game/tictactoe"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// Openings that the model plays itself fork into games that begin alike, and a warm-up whose worker stumbles goes on
// with the move that it had come to.
func TestModelPlaysWarmUpsBeforeTheFork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.spec.Steps = 2
	w.spec.Environment = runspec.Environment{Kind: tictactoe.Kind,
		Options: json.RawMessage(`{"opening_moves":4,"opening_played":true}`)}
	asked, stumbled := map[string]int{}, map[rollout.GroupSeq]bool{}
	w.policy.fail = func(req rollout.Request) error {
		if !strings.Contains(req.ID, "warm-up") {
			return nil
		}
		asked[req.Phase]++
		if req.Phase == "X2" && !stumbled[req.Episode.Seq] {
			stumbled[req.Episode.Seq] = true
			return rollout.Fail(rollout.Retryable, "engine_gone", errors.New("the engine left"))
		}
		return nil
	}
	for step := range rollout.Step(2) {
		w.at(time.Duration(step+1)*time.Minute, func() { w.train(step) })
	}
	w.start()
	status := w.result()
	groups := status.Launched
	if status.State != runstatus.RunCompleted || groups != 6 {
		t.Fatalf("ended %s after %d groups, want completed after 6", status.State, groups)
	}
	for phase, want := range map[string]int{"X1": 6, "O1": 6, "X2": 12, "O2": 6} {
		if asked[phase] != want {
			t.Errorf("%s was asked for %d times in 6 warm-ups that stumbled there once, want %d", phase, asked[phase], want)
		}
	}
	first := map[string]string{"X": "X3", "O": "O3"}
	for _, group := range w.groups {
		for _, tr := range group.Trajectories {
			if len(tr.Turns) > 0 && tr.Turns[0].Phase != first[tr.Agent] || len(tr.Turns) == 0 && tr.Agent == "X" {
				t.Errorf("%s does not begin after the warm-up", tr.ID)
			}
		}
	}
}
