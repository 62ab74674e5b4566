package diplomacyenv

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/rollout"
)

func newEnv(tb testing.TB, options string) *Env {
	tb.Helper()
	env, err := FromOptions(json.RawMessage(options))
	if err != nil {
		tb.Fatal(err)
	}
	return env
}

func startGame(tb testing.TB, env *Env, seed int64, sample int) episode.Game {
	tb.Helper()
	scenario, err := env.Scenario(seed)
	if err != nil {
		tb.Fatal(err)
	}
	g, err := env.Start(scenario, seed, sample)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// randomWord draws a word of the language of a pattern that has no repetition.
func randomWord(re *syntax.Regexp, rng *rand.Rand, b *strings.Builder) {
	switch re.Op {
	case syntax.OpLiteral:
		b.WriteString(string(re.Rune))
	case syntax.OpConcat, syntax.OpCapture:
		for _, sub := range re.Sub {
			randomWord(sub, rng, b)
		}
	case syntax.OpAlternate:
		randomWord(re.Sub[rng.IntN(len(re.Sub))], rng, b)
	case syntax.OpQuest:
		if rng.IntN(2) == 0 {
			randomWord(re.Sub[0], rng, b)
		}
	case syntax.OpCharClass:
		b.WriteRune(re.Rune[2*rng.IntN(len(re.Rune)/2)])
	case syntax.OpEmptyMatch:
	default:
		panic("unexpected " + re.String())
	}
}

// answer is a random answer within a prompt's regular expression.
func answer(tb testing.TB, p episode.Prompt, rng *rand.Rand) string {
	tb.Helper()
	if p.Constraint.Kind != rollout.RegexConstraint {
		tb.Fatalf("constraint %v", p.Constraint)
	}
	re, err := syntax.Parse(p.Constraint.Pattern, syntax.Perl)
	if err != nil {
		tb.Fatal(err)
	}
	var b strings.Builder
	randomWord(re, rng, &b)
	return b.String()
}

func answers(tb testing.TB, g episode.Game, rng *rand.Rand) map[string]string {
	tb.Helper()
	prompts, err := g.Prompts()
	if err != nil {
		tb.Fatal(err)
	}
	m := map[string]string{}
	for _, p := range prompts {
		m[p.Agent] = answer(tb, p, rng)
	}
	return m
}

func checkpoint(tb testing.TB, g episode.Game) []byte {
	tb.Helper()
	b, err := g.Checkpoint()
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// A game resumed after any phase asks the same, and comes to the same, as the game that went on.
func TestResumeAtEveryPhase(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, options string }{
		{"defaults", ``},
		{"warm-up, history, rewards per turn",
			`{"warmup_phases":{"min":1,"max":6},"prompt":{"history_phases":2,"threats":true},"reward":{"kind":"sum_of_squares","per_turn":true}}`},
		{"step and final", `{"reward":{"kind":"step_final","per_turn":true}}`},
		{"two learners among bots",
			`{"train":["FRANCE","TURKEY"],"opponents":{"ENGLAND":"chaos","ITALY":"random","RUSSIA":"hold"},"reward":{"kind":"draw_size"}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			env := newEnv(t, tt.options)
			for seed := range int64(3) {
				g := startGame(t, env, seed, 1)
				rng := rand.New(rand.NewPCG(uint64(seed), 7))
				for !g.Done() {
					twin, err := env.Resume(checkpoint(t, g))
					if err != nil {
						t.Fatal(err)
					}
					mustAskTheSame(t, g, twin)
					told := answers(t, g, rng)
					a, errA := g.Act(told)
					b, errB := twin.Act(told)
					if errA != nil || errB != nil {
						t.Fatal(errA, errB)
					}
					mustEqualJSON(t, a, b)
					if !bytes.Equal(checkpoint(t, g), checkpoint(t, twin)) {
						t.Fatalf("phase %s: the checkpoints differ", g.Phase())
					}
				}
				twin, err := env.Resume(checkpoint(t, g))
				if err != nil {
					t.Fatal(err)
				}
				a, errA := g.Result()
				b, errB := twin.Result()
				if errA != nil || errB != nil {
					t.Fatal(errA, errB)
				}
				mustEqualJSON(t, a, b)
			}
		})
	}
}

func mustAskTheSame(t *testing.T, a, b episode.Game) {
	t.Helper()
	pa, errA := a.Prompts()
	pb, errB := b.Prompts()
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	mustEqualJSON(t, pa, pb)
}

func mustEqualJSON(t *testing.T, a, b any) {
	t.Helper()
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	if errX != nil || errY != nil {
		t.Fatal(errX, errY)
	}
	if !bytes.Equal(x, y) {
		t.Fatalf("differ:\n%s\n%s", x, y)
	}
}
