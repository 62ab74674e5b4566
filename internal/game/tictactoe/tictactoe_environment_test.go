package tictactoe

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/rollout"
)

func newGame(t testing.TB, opening int, seed int64) (*Env, episode.Game) {
	t.Helper()
	env, err := New(Config{OpeningMoves: opening})
	if err != nil {
		t.Fatal(err)
	}
	scenario, err := env.Scenario(seed)
	if err != nil {
		t.Fatal(err)
	}
	g, err := env.Start(scenario, seed, 0)
	if err != nil {
		t.Fatal(err)
	}
	return env, g
}

func play(t testing.TB, g episode.Game, moves ...string) {
	t.Helper()
	for _, m := range moves {
		prompts, err := g.Prompts()
		if err != nil || len(prompts) != 1 {
			t.Fatalf("before %q: %d prompts, %v", m, len(prompts), err)
		}
		if _, err := g.Act(map[string]string{prompts[0].Agent: m}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRewards(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		moves []string
		x, o  float64
	}{
		{"X wins a row", strings.Fields("a1 a2 b1 b2 c1"), 1, 0},
		{"O wins a diagonal", strings.Fields("a2 a1 a3 b2 b3 c3"), 0, 1},
		{"full board", strings.Fields("b2 a1 a2 c2 b1 b3 a3 c1 c3"), 0.5, 0.5},
		{"spaces and capitals are forgiven", []string{" A1 \n", "A2", "B1", "B2", "C1"}, 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, g := newGame(t, 0, 1)
			play(t, g, tt.moves...)
			result, err := g.Result()
			if err != nil {
				t.Fatal(err)
			}
			if result.Rewards["X"] != tt.x || result.Rewards["O"] != tt.o {
				t.Errorf("rewards %v, want X %g O %g", result.Rewards, tt.x, tt.o)
			}
		})
	}
}

func TestBadAnswersTakeTheFirstFreeSquare(t *testing.T) {
	t.Parallel()
	_, g := newGame(t, 0, 1)
	for i, answer := range []string{"", "z9", "a3"} {
		prompts, _ := g.Prompts()
		out, err := g.Act(map[string]string{prompts[0].Agent: answer})
		if err != nil {
			t.Fatal(err)
		}
		if out.Counts[CountIllegal] != 1 {
			t.Errorf("answer %d %q: counts %v", i, answer, out.Counts)
		}
	}
	checkpoint, _ := g.Checkpoint()
	if want := `{"moves":[0,1,2]}`; string(checkpoint) != want {
		t.Errorf("checkpoint %s, want %s", checkpoint, want)
	}
}

// A game played from any of its checkpoints is the same game, and its choices are exactly what is legal.
func TestResume(t *testing.T) {
	t.Parallel()
	for seed := range int64(50) {
		env, g := newGame(t, int(seed%(maxOpening+1)), seed)
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		for !g.Done() {
			checkpoint, err := g.Checkpoint()
			if err != nil {
				t.Fatal(err)
			}
			twin, err := env.Resume(checkpoint)
			if err != nil {
				t.Fatal(err)
			}
			prompts, _ := g.Prompts()
			choices := prompts[0].Constraint.Choices
			answers := map[string]string{prompts[0].Agent: choices[rng.IntN(len(choices))]}
			for _, game := range []episode.Game{g, twin} {
				out, err := game.Act(answers)
				if err != nil || out.Counts[CountLegal] != 1 {
					t.Fatalf("a choice was not legal: %v %v", out, err)
				}
			}
			a, _ := g.Checkpoint()
			b, _ := twin.Checkpoint()
			if !bytes.Equal(a, b) || g.Phase() != twin.Phase() {
				t.Fatalf("seed %d: resumed %s, want %s", seed, b, a)
			}
		}
		if _, err := g.Result(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMisuse(t *testing.T) {
	t.Parallel()
	for _, options := range []string{`{"opening_moves":5}`, `{"opening_moves":-1}`, `{"moves":1}`,
		`{"opening_moves":"x"}`} {
		if _, err := FromOptions(json.RawMessage(options)); err == nil || !strings.Contains(err.Error(), "opening_moves") {
			t.Errorf("options %s: %v, want an error that names opening_moves", options, err)
		}
	}
	env, err := FromOptions(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, checkpoint := range []string{"", "{", `{"moves":[9]}`, `{"moves":[-1]}`, `{"moves":[1,1]}`,
		`{"moves":[0,3,1,4,2,5]}`} {
		if _, err := env.Resume([]byte(checkpoint)); err == nil {
			t.Errorf("checkpoint %q: want an error", checkpoint)
		}
	}
	_, g := newGame(t, 0, 1)
	if _, err := g.Result(); err == nil {
		t.Error("result of an unfinished game: want an error")
	}
	if _, err := g.Act(nil); err == nil {
		t.Error("no answer of the mover: want an error")
	}
}

// X alone is asked and rewarded; what the opponent marks differs between the games of a group, and is the same after a
// resume.
func TestRandomOpponent(t *testing.T) {
	t.Parallel()
	env, err := FromOptions(json.RawMessage(`{"opponent":"random","opening_moves":3}`))
	if err != nil {
		t.Fatal(err)
	}
	scenario, err := env.Scenario(1)
	if err != nil {
		t.Fatal(err)
	}
	openings := map[string]bool{}
	for sample := range 20 {
		g, err := env.Start(scenario, 1, sample)
		if err != nil {
			t.Fatal(err)
		}
		checkpoint, _ := g.Checkpoint()
		openings[string(checkpoint[:len(`{"moves":[0,1,2,3]`)])] = true
		for !g.Done() {
			prompts, err := g.Prompts()
			if err != nil || len(prompts) != 1 || prompts[0].Agent != "X" {
				t.Fatalf("prompts %v, %v; want one of X", prompts, err)
			}
			before, _ := g.Checkpoint()
			twin, err := env.Resume(before)
			if err != nil {
				t.Fatal(err)
			}
			play(t, g, prompts[0].Constraint.Choices[0])
			play(t, twin, prompts[0].Constraint.Choices[0])
			a, _ := g.Checkpoint()
			b, _ := twin.Checkpoint()
			if !bytes.Equal(a, b) {
				t.Fatalf("resumed %s, want %s", b, a)
			}
		}
		result, err := g.Result()
		if _, x := result.Rewards["X"]; err != nil || !x || len(result.Rewards) != 1 {
			t.Errorf("rewards %v, %v; want one of X", result.Rewards, err)
		}
	}
	if len(openings) < 3 {
		t.Errorf("the opponent answered %d ways in 20 games, want several", len(openings))
	}
}

func TestOpponentMisuse(t *testing.T) {
	t.Parallel()
	for _, options := range []string{`{"opponent":"perfect"}`,
		`{"opponent":"random","opening_moves":2,"opening_played":true}`} {
		if _, err := FromOptions(json.RawMessage(options)); err == nil || !strings.Contains(err.Error(), "opponent") {
			t.Errorf("options %s: %v, want an error that names opponent", options, err)
		}
	}
}

func TestPlayedOpeningForks(t *testing.T) {
	t.Parallel()
	env, err := New(Config{OpeningMoves: 3, OpeningPlayed: true})
	if err != nil {
		t.Fatal(err)
	}
	g, err := env.WarmUp(1)
	if err != nil {
		t.Fatal(err)
	}
	play(t, g, "a1", "b2", "c3")
	if !g.Done() {
		t.Fatal("three moves were to be played")
	}
	checkpoint, err := g.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	scenario, err := env.Fork(checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	for sample := range 2 {
		fork, err := env.Start(scenario, 1, sample)
		if err != nil || fork.Done() || fork.Phase() != "O2" {
			t.Errorf("game %d begins at %s: %v", sample, fork.Phase(), err)
		}
	}
}

// A fixed policy plays O: it is asked for O's moves, which are nobody's turns, earn nothing and have their own count.
func TestPolicyOpponent(t *testing.T) {
	t.Parallel()
	env, err := FromOptions(json.RawMessage(`{"opponent":"policy:frozen","opening_moves":1}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := env.Policies(); !slices.Equal(got, []string{"frozen"}) {
		t.Errorf("policies %v", got)
	}
	g, err := env.Start([]byte(`{"moves":[4]}`), 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, move := range []string{"nowhere", "a1", "b1", "c3"} { // O gets the first square
		saved, err := g.Checkpoint()
		if err != nil {
			t.Fatal(err)
		}
		if g, err = env.Resume(saved); err != nil {
			t.Fatal(err)
		}
		prompts, err := g.Prompts()
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"X": "", "O": "frozen"}[prompts[0].Agent]
		if prompts[0].Policy != want {
			t.Errorf("%s is asked of policy %q, want %q", prompts[0].Agent, prompts[0].Policy, want)
		}
		out, err := g.Act(map[string]string{prompts[0].Agent: move})
		counter := map[string]string{"": CountLegal, "frozen": CountOpponentLegal}[want]
		if move == "nowhere" {
			counter = CountOpponentIllegal
		}
		if err != nil || len(out.Counts) != 1 || out.Counts[counter] != 1 {
			t.Errorf("move of %s: counts %v, want %s; %v", prompts[0].Agent, out.Counts, counter, err)
		}
		if g.Done() {
			break
		}
	}
	seats := []rollout.Seat{{Place: "X", Player: "", Score: 1}, {Place: "O", Player: "policy:frozen", Score: 0}}
	if got := g.(episode.Seated).Seats(); !slices.Equal(got, seats) {
		t.Errorf("seats %v, want %v", got, seats)
	}
	result, err := g.Result()
	if err != nil || len(result.Rewards) != 1 {
		t.Errorf("rewards %v, %v: want X's alone", result.Rewards, err)
	}
	for _, options := range []string{`{"opponent":"policy:"}`, `{"opponent":"frozen"}`,
		`{"opponent":"policy:frozen","opening_moves":2,"opening_played":true}`} {
		if _, err := FromOptions(json.RawMessage(options)); err == nil || !strings.Contains(err.Error(), "opponent") {
			t.Errorf("options %s: %v, want an error that names the opponent", options, err)
		}
	}
}
