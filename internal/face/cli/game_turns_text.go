package cli

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/millrace/millrace/internal/game/gamelist"
	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/kit/termtext"
	"github.com/millrace/millrace/internal/kit/units"
)

const (
	// mostText is how many characters of a prompt or a completion a person is shown, and mostTokens how many tokens.
	mostText   = 20_000
	mostTokens = 2_000
)

// writeTurns writes a game's agents and turns, at most width characters wide; 0: any width.
func writeTurns(w io.Writer, g gamelist.Turns, width int) error {
	agents := table.New(table.Left("AGENT"), table.Right("TURNS"), table.Right("REWARD"), table.Right("ADVANTAGE"))
	for _, a := range g.Agents {
		agents.Row(a.Agent, count(int64(a.Turns)), fmt.Sprintf("%.3f", a.Reward), fmt.Sprintf("%+.3f", a.Advantage))
	}
	if err := agents.Write(w, width); err != nil {
		return err
	}
	fmt.Fprintln(w)
	t := table.New(table.Right("TURN"), table.Left("PHASE"), table.Left("AGENT"), table.Right("POLICY"),
		table.Left("ENGINE"), table.Right("TIME"), table.Right("ATTEMPTS"), table.Right("PROMPT"),
		table.Right("TOKENS"), table.Right("LOGPROB"), table.Left("FINISH"), table.Left("COMPLETION"))
	for _, turn := range g.Turns {
		t.Row(count(int64(turn.Turn)), turn.Phase, turn.Agent, fmt.Sprintf("v%d", turn.PolicyVersion), string(turn.Engine),
			turn.Time(), turn.Attempts(), count(int64(turn.PromptTokens)),
			count(int64(turn.Tokens)), fmt.Sprintf("%.2f", turn.MeanLogprob),
			turn.FinishReason, strings.TrimSpace(termtext.First(turn.Text, completionWidth)))
	}
	return t.Write(w, width)
}

// completionWidth is how much of a completion stands in a table.
const completionWidth = 60

// writeTurn writes a turn: prompt, completion, and its tokens with their logprobs.
func writeTurn(w io.Writer, t gamelist.Turn, width int) error {
	head := table.New(table.Left(""), table.Left(""))
	head.Row("turn", fmt.Sprintf("%d of %s", t.Turn, t.Game))
	head.Row("phase", t.Phase)
	head.Row("agent", t.Agent)
	head.Row("policy", fmt.Sprintf("v%d, sampled by engine %s", t.PolicyVersion, t.Engine))
	head.Row("tokens", fmt.Sprintf("%d in the prompt, %d in the completion, which ended with %s", t.PromptTokens, t.Tokens,
		t.FinishReason))
	head.Row("logprob", fmt.Sprintf("%.3f in the mean of the completion", t.MeanLogprob))
	if t.Reward != 0 {
		head.Row("reward", fmt.Sprintf("%.3f of this turn", t.Reward))
	}
	head.Row("time", t.Says())
	if t.Timing != nil {
		for _, attempt := range t.Timing.Failed {
			head.Row("failed attempt", fmt.Sprintf("%s: %s after %s", attempt.Engine, attempt.Code, units.Seconds(attempt.Sec)))
		}
	}
	if err := head.Write(w, width); err != nil {
		return err
	}
	prompt := fmt.Sprintf("(its text is not known: %s)\n%s", t.NoPrompt, idsText(t.PromptTokenIDs))
	if t.Prompt != nil {
		prompt = *t.Prompt
	}
	writeText(w, "PROMPT", prompt)
	writeText(w, "COMPLETION", t.Text)
	fmt.Fprintln(w)
	return tokensTable(t.Sampled).Write(w, width)
}

// writeText writes a model's text under a heading, each line behind a mark so that it cannot be taken for ours.
func writeText(w io.Writer, head, text string) {
	fmt.Fprintf(w, "\n%s\n", head)
	shown := text
	if cut := termtext.First(text, mostText); cut != text {
		shown = cut
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(termtext.Block(shown), "\n"), "\n") {
		fmt.Fprintln(w, strings.TrimRight("│ "+line, " "))
	}
	if shown != text {
		fmt.Fprintf(w, "(%d more characters; all of it with -o json)\n", len([]rune(text))-mostText)
	}
}

// idsText is token ids as they are.
func idsText(ids []int32) string {
	const perLine = 12
	var b strings.Builder
	for i, id := range ids[:min(len(ids), mostTokens)] {
		if i > 0 {
			b.WriteString(map[bool]string{true: "\n", false: " "}[i%perLine == 0])
		}
		fmt.Fprint(&b, id)
	}
	return b.String()
}

func tokensTable(tokens []gamelist.Token) *table.Table {
	t := table.New(table.Right("#"), table.Right("TOKEN"), table.Right("LOGPROB"), table.Right("PROB"), table.Left("TEXT"))
	for i, token := range tokens[:min(len(tokens), mostTokens)] {
		text := ""
		if token.Text != nil {
			text = visible(*token.Text)
		}
		p := float64(token.Logprob)
		t.Row(count(int64(i)), count(int64(token.ID)), fmt.Sprintf("%.3f", p), fmt.Sprintf("%.1f %%", 100*math.Exp(p)), text)
	}
	if more := len(tokens) - mostTokens; more > 0 {
		t.Row("", "", "", "", fmt.Sprintf("(%d more; all of them with -o json)", more))
	}
	return t
}

// visible is a token's text with its blanks to be seen.
func visible(text string) string {
	return strings.NewReplacer(" ", "␣", "\n", "⏎", "\t", "⇥").Replace(text)
}
