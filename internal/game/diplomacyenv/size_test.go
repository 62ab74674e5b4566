package diplomacyenv

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/game/diplomacy"
	"github.com/millrace/millrace/internal/game/diplomacyenv/bot"
	"github.com/millrace/millrace/internal/simulate/enginesim/tokenizer"
)

// The workload that the service is sized for has calls of about 440 prompt and 24 completion tokens, 61 decisions in
// three years. Learners that play like DumbBot come near it with the default prompt.
func TestSizeOfCalls(t *testing.T) {
	t.Parallel()
	const games = 10
	env, tokens := newEnv(t, ``), tokenizer.New()
	player, err := bot.New(bot.Dumb, env.m)
	if err != nil {
		t.Fatal(err)
	}
	var calls, prompt, completion, chars int
	for seed := range uint64(games) {
		g := startGame(t, env, int64(seed), 0)
		rng := rand.New(rand.NewPCG(seed, 1))
		for !g.Done() {
			list, err := g.Prompts()
			if err != nil {
				t.Fatal(err)
			}
			told := map[string]string{}
			for _, p := range list {
				told[p.Agent] = botAnswer(g.(*game), power(t, p.Agent), player, rng)
				calls++
				chars += len(p.Text)
				prompt += len(tokens.Encode(p.Text))
				completion += len(tokens.Encode(told[p.Agent]))
			}
			if _, err := g.Act(told); err != nil {
				t.Fatal(err)
			}
		}
	}
	perCall := func(n int) float64 { return float64(n) / float64(calls) }
	t.Logf("%.1f calls a game; %.0f prompt tokens (%.0f characters) and %.1f completion tokens a call",
		float64(calls)/games, perCall(prompt), perCall(chars), perCall(completion))
	if n := perCall(prompt); n < 380 || n > 500 {
		t.Errorf("%.0f prompt tokens a call, want about 440", n)
	}
	if n := perCall(completion); n < 18 || n > 30 {
		t.Errorf("%.1f completion tokens a call, want about 24", n)
	}
	if n := float64(calls) / games; n < 50 || n > 70 {
		t.Errorf("%.1f calls a game, want about 60", n)
	}
}

func botAnswer(g *game, p diplomacy.Power, player bot.Bot, rng *rand.Rand) string {
	var b strings.Builder
	for _, o := range player.Orders(g.state, g.options()[p], rng) {
		b.WriteString(g.env.m.OrderString(o) + "\n")
	}
	return b.String()
}
