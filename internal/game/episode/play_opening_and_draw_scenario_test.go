package episode_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/game/promptset"
	"github.com/millrace/millrace/internal/game/tictactoe"
	"github.com/millrace/millrace/internal/rollout"
)

func opening(t *testing.T) *tictactoe.Env {
	t.Helper()
	env, err := tictactoe.New(tictactoe.Config{OpeningMoves: 4, OpeningPlayed: true})
	if err != nil {
		t.Fatal(err)
	}
	if !env.Warms() {
		t.Fatal("an opening that is played needs no policy")
	}
	return env
}

func TestWarmUpIsPlayedOnceAndIsNobodysTurn(t *testing.T) {
	t.Parallel()
	env, e, b := opening(t), &engine{}, &book{}
	p := player(e, b)
	p.Environment = env
	forked, err := p.WarmUp(t.Context(), plan(1), env, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(e.seen) != 4 || len(*b) != 4 {
		t.Fatalf("%d requests and %d checkpoints for an opening of 4 moves", len(e.seen), len(*b))
	}
	warm := map[string]bool{}
	for _, req := range e.seen {
		warm[req.ID] = true
	}
	ep, _, err := p.Play(t.Context(), plan(1), forked, nil)
	if err != nil {
		t.Fatal(err)
	}
	turns := 0
	for _, tr := range ep.Trajectories {
		turns += len(tr.Turns)
	}
	if played := len(e.seen) - 4; turns != played || ep.Usage.Requests != int64(played) {
		t.Errorf("%d turns and %d requests counted, of %d after the fork", turns, ep.Usage.Requests, played)
	}
	for _, req := range e.seen[4:] {
		if warm[req.ID] {
			t.Errorf("request %s has the name of one of the warm-up", req.ID)
		}
	}
}

func TestWarmUpGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	env := opening(t)
	whole, b := &engine{}, &book{}
	p := player(whole, b)
	want, err := p.WarmUp(t.Context(), plan(1), env, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range *b {
		rest := &engine{}
		got, err := player(rest, &book{}).WarmUp(t.Context(), plan(1), env, &(*b)[i])
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) || !reflect.DeepEqual(rest.seen, whole.seen[i+1:]) && len(rest.seen) > 0 {
			t.Errorf("from move %d: scenario %s, %d requests; want %s, %d", i+1, got, len(rest.seen), want, len(whole.seen)-i-1)
		}
	}
}

func TestWarmUpFailsAsGamesDo(t *testing.T) {
	t.Parallel()
	env := opening(t)
	gone := rollout.Fail(rollout.Retryable, "engine_gone", errors.New("no engine"))
	p := player(&engine{fail: func(rollout.Request) error { return gone }}, &book{})
	if _, err := p.WarmUp(t.Context(), plan(1), env, nil); !errors.Is(err, gone) {
		t.Errorf("got %v, want the engine's failure", err)
	}
	_, err := p.WarmUp(t.Context(), plan(1), env, &rollout.Checkpoint{Game: []byte("{")})
	if rollout.KindOf(err) != rollout.GameFault || !strings.Contains(err.Error(), "t/4") {
		t.Errorf("got %v, want a fault of the game that names the group", err)
	}
}

// TestOrderedScenarios: a group of a run has the row of its number, whatever its seed, and its messages go to the
// engine.
func TestOrderedScenarios(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	rows := `{"prompt": "the zeroth", "answer": 0}` + "\n" + `{"prompt": "the first", "answer": 1}`
	if err := os.WriteFile(path, []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	env, err := promptset.FromOptions([]byte(`{"dataset": ` + strconv.Quote(path) + `, "shuffle": false, "chat": true}`))
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{}
	p := player(e, &book{})
	p.Environment = env
	for seq := range rollout.GroupSeq(4) {
		plan := plan(1)
		plan.Ref.Seq, plan.Seed = seq, int64(seq)*77
		scenario, err := p.Scenario(plan)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := p.Play(t.Context(), plan, scenario, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"the zeroth", "the first", "the zeroth", "the first"} {
		asked := e.seen[i]
		if asked.Prompt != "" || len(asked.Messages) != 1 || asked.Messages[0].Content != want || asked.PromptTokens == 0 {
			t.Errorf("group %d is asked %+v, want %q", i, asked, want)
		}
	}
}
