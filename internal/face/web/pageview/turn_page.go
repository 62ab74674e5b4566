package pageview

import (
	"fmt"
	"math"

	"github.com/millrace/millrace/internal/game/gamelist"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
)

// Turn is the page of one turn: what was asked and what was answered, token by token.
type Turn struct {
	TurnRow
	Run            string
	Group          rollout.GroupSeq
	Sample         int
	Prompt, Why    string // the prompt's text, or why there is none
	PromptMore     string
	Completion     string
	CompletionMore string
	PromptCount    int
	Tokens         []TokenSpan
	MoreTokens     int
	Previous, Next string
	Constraint     Constraint
	Timing         string // where its time went
	Failed         []FailedAttempt
	OfGame         string                   // how long its game took
	Attempts       []gamelist.FailedAttempt // at its game, that failed
}

// FailedAttempt is one sending of a turn's request that brought no answer.
type FailedAttempt struct {
	No                  int
	Engine, Code, After string
}

// AddGame adds what is known of the turn's game: how long it took, and which attempts at it failed.
func (v *Turn) AddGame(g gamelist.Game) {
	v.Attempts = g.Failures
	if g.Seconds > 0 {
		v.OfGame = fmt.Sprintf("Its game took %s from its first request at an engine on, %s, %s.", units.Seconds(g.Seconds),
			plural(int(g.Requests), "request"), plural(max(1, g.Attempts), "attempt"))
	}
}

// TokenSpan is a token, shaded by how unlikely it was.
type TokenSpan struct{ Text, Class, Tip string }

// mostTokens is how many tokens a page shades; the API has all.
const mostTokens = 2000

// TurnOf makes the page of a turn.
func TurnOf(ref rollout.EpisodeRef, t gamelist.Turn) Turn {
	v := Turn{TurnRow: turnRow(ref, t.TurnView), Run: string(ref.Run.Plain()), Group: ref.Seq, Sample: ref.Sample,
		Why: harmless(t.NoPrompt), PromptCount: len(t.PromptTokenIDs), Timing: t.Says()}
	if t.Timing != nil {
		first := t.Timing.Attempts - len(t.Timing.Failed) // the earliest are not remembered if they were many
		for i, attempt := range t.Timing.Failed {
			v.Failed = append(v.Failed, FailedAttempt{first + i, harmless(string(attempt.Engine)),
				harmless(string(attempt.Code)), units.Seconds(attempt.Sec)})
		}
	}
	if t.Turn > 0 {
		v.Previous = fmt.Sprint(t.Turn - 1)
	}
	if t.Turn+1 < t.Turns {
		v.Next = fmt.Sprint(t.Turn + 1)
	}
	if t.Prompt != nil {
		v.Prompt, v.PromptMore = Harmless(*t.Prompt)
	}
	v.Completion, v.CompletionMore = Harmless(t.Text)
	for i, token := range t.Sampled {
		if i == mostTokens {
			v.MoreTokens = len(t.Sampled) - i
			break
		}
		span := TokenSpan{Text: fmt.Sprintf(" %d ", token.ID), Class: likelihood(float64(token.Logprob)),
			Tip: fmt.Sprintf("token %d, probability %.3g, logprob %.3f", token.ID, math.Exp(float64(token.Logprob)),
				token.Logprob)}
		if token.Text != nil {
			span.Text = harmless(*token.Text)
		}
		v.Tokens = append(v.Tokens, span)
	}
	return v
}

// likelihood is the shade of a token: the darker, the less likely it was.
func likelihood(logprob float64) string {
	for i, p := range []float64{0.9, 0.5, 0.2, 0.05, 0.01} {
		if logprob >= math.Log(p) {
			return []string{"", "p1", "p2", "p3", "p4"}[i]
		}
	}
	return "p5"
}
