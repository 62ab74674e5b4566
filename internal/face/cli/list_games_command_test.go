package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/game/gamelist"
	"github.com/millrace/millrace/internal/kit/termtext"
	"github.com/millrace/millrace/internal/rollout"
)

// hostileText is what a model may say: colours, the clipboard, a title, a link, C1, the line turned round, and much.
var hostileText = "\x1b[31mred\x1b]52;c;cm0=\a\x1b]0;title\a\x1b]8;;http://x\x1b\\\u009b2J\u202eabc\rover\b\x00" +
	strings.Repeat("long ", 200_000)

// harmless reports a text in which a terminal would obey something.
func harmless(t *testing.T, text string) {
	t.Helper()
	for _, r := range strings.ReplaceAll(text, "\n", "") {
		if termtext.Obeyed(r) {
			t.Fatalf("a terminal obeys %U in %q", r, termtext.Cut(text, 300))
		}
	}
}

func TestTurnsOfHostileModels(t *testing.T) {
	t.Parallel()
	prompt, piece := hostileText, "\x1b["
	view := gamelist.TurnView{Phase: "S1901M\x1b[2J", Agent: "FRANCE\r", Engine: "e\u202e",
		FinishReason: "stop", Text: hostileText, Timing: &rollout.Timing{QueueSec: 0.5, ExecSec: 2, Attempts: 2,
			Failed: []rollout.RequestFailure{{Engine: "e-1\x1b[2J", Code: rollout.CodeTimeout, Sec: 1}}}}
	turn := gamelist.Turn{TurnView: view, Game: "demo/0/0", Prompt: &prompt,
		Sampled: []gamelist.Token{{ID: 1, Logprob: -0.5, Text: &piece}}}
	for _, width := range []int{0, 80} {
		var b strings.Builder
		if err := writeTurn(&b, turn, width); err != nil {
			t.Fatal(err)
		}
		if err := writeTurns(&b, gamelist.Turns{Turns: []gamelist.TurnView{view}}, width); err != nil {
			t.Fatal(err)
		}
		harmless(t, b.String())
		if !strings.Contains(b.String(), "2.5 s: 0.50 s in the queue, 2 s at engines, in 2 attempts") ||
			!strings.Contains(b.String(), "timeout after 1 s") {
			t.Errorf("the turn's time and its failed attempt are not told:\n%.1000s", b.String())
		}
		if len(b.String()) > 200_000 || !strings.Contains(b.String(), "more characters; all of it with -o json") {
			t.Errorf("a text of 1 MB is written as %d bytes", len(b.String()))
		}
	}
}

const failingRun = `{"spec":{"name":"demo","steps":3},"state":"running","attempts":{"finished":4,"failed":7,"by_code":[` +
	`{"code":"timeout","attempts":6,"given_up":2,"in_row":1,"last_error":"engine a: no answer\u001b[2J","last_at":"2026-11-21T11:59:00Z","last_game":"demo/4/1","last_attempt":2},` +
	`{"code":"odd_one","attempts":1,"last_error":"?","last_at":"2026-11-21T11:50:00Z","last_game":"demo/3/1"}]}}`

func gamesDocument(t *testing.T, next string, games ...gamelist.Game) string {
	t.Helper()
	b, err := json.Marshal(gamelist.Page{Games: games, Total: 3, Next: next})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func gameOf(group, sample int, failure string) gamelist.Game {
	return gamelist.Game{Name: fmt.Sprintf("demo/%d/%d", group, sample), Sample: sample, State: gamelist.Failed,
		GroupState: "dropped", Code: "timeout", Failure: failure, Attempts: 2}
}

func TestFailuresOfGames(t *testing.T) {
	t.Parallel()
	r, _ := command(t, map[string]reply{"GET /v1/runs/demo": {200, failingRun}}, "", nil, "run", "show", "demo")
	for _, want := range []string{"timeout             6         2         1   1m00s ago  demo/4/1",
		"to do    timeout: raise timeouts.completion", "to do    odd_one: ", "millrace events demo --code odd_one"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s%s", want, r.stdout, r.stderr)
		}
	}
	harmless(t, r.stdout)
}

func TestGameList(t *testing.T) {
	t.Parallel()
	reward := 0.5
	first := gamelist.Game{Name: "demo/0/0", State: gamelist.Finished, GroupState: "ready", Kept: true,
		Reward: &reward, Phases: 4}
	answers := map[string]reply{
		"GET /v1/runs/demo/games?limit=500&sort=reward":             {200, gamesDocument(t, "0/0", first)},
		"GET /v1/runs/demo/games?after=0%2F0&limit=500&sort=reward": {200, gamesDocument(t, "", gameOf(0, 1, "no\nanswer"))},
		"GET /v1/runs/demo/games?limit=1&sort=group":                {200, gamesDocument(t, "0/0", first)},
	}
	r, _ := command(t, answers, "", nil, "run", "games", "demo", "--sort", "reward", "--limit", "0")
	if want := `GAME  STATE     GROUP      REWARD  POLICY  PHASES  SECONDS  TOKENS  ATT  FAILURE
0/0   finished  ready       0.500       -       4        -       0    0
0/1   failed    (dropped)       -       -       0        -       0    2  timeout: no answer
`; r.stdout != want {
		t.Errorf("got\n%s%swant\n%s", r.stdout, r.stderr, want)
	}
	r, _ = command(t, answers, "", nil, "run", "games", "demo", "--limit", "1")
	if !strings.Contains(r.stderr, "1 of 3 games; the next ones: --after 0/0") {
		t.Error(r.stderr)
	}
	for _, args := range [][]string{{"demo", "--sort", "beauty"}, {"demo", "--state", "odd"},
		{"demo", "--limit", "-1"}, {}} {
		if r, _ := command(t, nil, "", nil, append([]string{"run", "games"}, args...)...); r.code != ExitUsage {
			t.Errorf("%v: exit code %d", args, r.code)
		}
	}
	if r, _ := command(t, nil, "", nil, "run", "games", "nobody"); r.code != ExitNotFound {
		t.Errorf("nobody's: exit code %d", r.code)
	}
}
