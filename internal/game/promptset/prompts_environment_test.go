package promptset

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/rollout"
)

// written is an environment over a dataset of these lines, with further options.
func written(t *testing.T, options string, lines ...string) *Env {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	env, err := FromOptions(json.RawMessage(fmt.Sprintf(`{"dataset": %q%s}`, path, options)))
	if err != nil {
		t.Fatal(err)
	}
	return env
}

func opened(t *testing.T, env *Env, group rollout.GroupSeq) episode.Game {
	t.Helper()
	scenario, err := env.ScenarioOf(group)
	if err != nil {
		t.Fatal(err)
	}
	game, err := env.Start(scenario, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	return game
}

// TestEveryRowOnceAPass: the groups of a pass have each row once, in another order than those of the next one, and
// always the same.
func TestEveryRowOnceAPass(t *testing.T) {
	t.Parallel()
	var lines []string
	for i := range 50 {
		lines = append(lines, fmt.Sprintf(`{"prompt": "task %d", "answer": %d}`, i, i), "  ")
	}
	rows := func(env *Env, pass int) (order []string) {
		for i := range 50 {
			prompts, err := opened(t, env, rollout.GroupSeq(pass*50+i)).Prompts()
			if err != nil || len(prompts) != 1 {
				t.Fatal(prompts, err)
			}
			order = append(order, prompts[0].Text)
		}
		return order
	}
	env := written(t, "", lines...)
	first, second, again := rows(env, 0), rows(env, 1), rows(written(t, "", lines...), 0)
	if slices.Equal(first, second) || !slices.Equal(first, again) {
		t.Errorf("passes %v and %v, and the first one again %v", first, second, again)
	}
	inOrder := rows(written(t, `, "shuffle": false`, lines...), 1)
	for _, order := range [][]string{first, second, slices.Clone(inOrder)} {
		slices.SortFunc(order, func(a, b string) int { return len(a) - len(b) + strings.Compare(a, b) })
		if n := len(slices.Compact(order)); n != 50 {
			t.Errorf("%d of 50 rows in a pass", n)
		}
	}
	for i, text := range inOrder {
		if text != fmt.Sprint("task ", i) {
			t.Errorf("without shuffle row %d is %q", i, text)
		}
	}
}

// TestRowsWeigh: a pass has each row as often as it weighs, one whose weight is none once, as a failure.
func TestRowsWeigh(t *testing.T) {
	t.Parallel()
	env := written(t, `, "weight": "w"`, `{"prompt": "often", "answer": 1, "w": 5}`,
		`{"prompt": "never", "answer": 1, "w": 0}`, `{"prompt": "once", "answer": 1}`, `{"prompt": "secret", "answer": 1, "w": 1.5}`,
		`{"prompt": "secret", "answer": 1, "w": -1}`, `{"prompt": "secret", "answer": 1, "w": 1001}`,
		`{"prompt": "secret", "answer": 1, "w": "2"}`, `{"secret`)
	for pass := range 2 {
		drawn := map[string]int{}
		for i := range 11 {
			scenario, err := env.ScenarioOf(rollout.GroupSeq(pass*11 + i))
			if err != nil {
				drawn[err.Error()]++
				continue
			}
			game, err := env.Start(scenario, 1, 0)
			if err != nil {
				t.Fatal(err)
			}
			prompts, _ := game.Prompts()
			drawn[prompts[0].Text]++
		}
		if drawn["often"] != 5 || drawn["once"] != 1 || len(drawn) != 7 {
			t.Errorf("pass %d has %v", pass, drawn)
		}
		for _, line := range []int{4, 5, 6, 7} {
			why := fmt.Sprintf("dataset: line %d of %s: w is no whole number from 0 to 1000", line, env.cfg.Dataset)
			if drawn[why] != 1 {
				t.Errorf("pass %d has %v, want %q once", pass, drawn, why)
			}
		}
	}
	none := written(t, `, "weight": "w"`, `{"prompt": "a", "answer": 1, "w": 0}`)
	if _, err := none.ScenarioOf(0); err == nil || !strings.Contains(err.Error(), "none that weighs anything") {
		t.Errorf("rows that weigh nothing: %v", err)
	}
}

// FuzzShuffled: whatever the size and the seed, a pass's order is a permutation.
func FuzzShuffled(f *testing.F) {
	for _, n := range []uint16{1, 2, 3, 4, 5, 63, 64, 65, 1000} {
		f.Add(n, uint64(n)*7)
	}
	f.Fuzz(func(t *testing.T, n uint16, seed uint64) {
		size := max(uint64(n)%2000, 1)
		seen := make([]bool, size)
		for i := range size {
			at := shuffled(i, size, seed)
			if at >= size || seen[at] {
				t.Fatalf("of %d rows %d comes to %d, a second time or outside", size, i, at)
			}
			seen[at] = true
		}
	})
}

// TestVerifiers: what each kind takes for right, for wrong, and for no answer at all.
func TestVerifiers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		verifier, answer, text string
		want                   string
	}{
		{`{"kind": "exact"}`, `"Paris"`, " Paris\n", countRight},
		{`{"kind": "exact"}`, `["Paris", "paris"]`, "paris", countRight},
		{`{"kind": "exact"}`, `"Paris"`, "Paris, France", countWrong},
		{`{"kind": "exact", "extract": "<answer>(.*?)</answer>"}`, `"4"`, "<answer>3</answer><answer>4</answer>", countRight},
		{`{"kind": "exact", "extract": "<answer>(.*?)</answer>"}`, `"4"`, "4", countUnparsed},
		{`{"kind": "exact", "extract": "[A-D]"}`, `"C"`, "It is (C).", countRight},
		{`{"kind": "numeric"}`, `"#### 1,234"`, "so it is 1234.0", countRight},
		{`{"kind": "numeric"}`, `72`, "70 + 2 = 72.", countRight},
		{`{"kind": "numeric"}`, `72`, "72 is less than 73", countWrong},
		{`{"kind": "numeric"}`, `-0.5`, "-.5", countRight},
		{`{"kind": "numeric"}`, `0`, "0.0", countRight},
		{`{"kind": "numeric"}`, `3`, "three", countUnparsed},
		{`{"kind": "numeric"}`, `3`, "1e999", countUnparsed},
		{`{"kind": "numeric", "tolerance": 0.01}`, `3.14159`, "3.15", countRight},
		{`{"kind": "numeric", "tolerance": 0.01}`, `3.14159`, "3.2", countWrong},
		{`{"kind": "numeric", "extract": "\\\\boxed\\{([^}]*)\\}"}`, `7`, `\boxed{7} of 9`, countRight},
		{`{"kind": "regex"}`, `"^(yes|no)$"`, "no", countRight},
		{`{"kind": "regex"}`, `"^(yes|no)$"`, "nope", countWrong},
		{`{"kind": "regex"}`, `"("`, "(", countWrong},
	} {
		env := written(t, `, "verifier": `+tt.verifier, `{"prompt": "?", "answer": `+tt.answer+`}`)
		game := opened(t, env, 0)
		outcome, err := game.Act(map[string]string{agent: tt.text})
		if err != nil || outcome.Counts[tt.want] != 1 {
			t.Errorf("%s: %q for %s: %v, %v; want %s", tt.verifier, tt.text, tt.answer, outcome.Counts, err, tt.want)
			continue
		}
		result, err := game.Result()
		want := 0.0
		if tt.want == countRight {
			want = 1
		}
		if err != nil || !game.Done() || result.Rewards[agent] != want {
			t.Errorf("%s: %q for %s: %+v, %v", tt.verifier, tt.text, tt.answer, result, err)
		}
	}
}

// TestPrompts: how a row becomes what the engine is asked.
func TestPrompts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ options, row, want string }{
		{``, `{"prompt": "1+1=", "answer": 2}`, `"1+1="`},
		{`, "template": "Q: {question} ({points} points)\nA:"`, `{"question": "1+1", "points": 3, "answer": 2}`,
			`"Q: 1+1 (3 points)\nA:"`},
		{`, "template": "{\"a\": {x}}"`, `{"x": 1, "answer": 2}`, `"{\"a\": 1}"`},
		{`, "chat": true`, `{"prompt": "1+1", "answer": 2}`, `[{user 1+1 [] }]`},
		{`, "chat": true, "system": "Be brief."`, `{"prompt": "1+1", "answer": 2}`, `[{system Be brief. [] } {user 1+1 [] }]`},
		{`, "chat": true, "system": "S"`, `{"messages": [{"role": "user", "content": "a"},
			{"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}], "answer": 2}`,
			`[{system S [] } {user a [] } {assistant b [] } {user c [] }]`},
		{`, "chat": true, "template": "{q}"`, `{"messages": [], "q": "d", "answer": 2}`, `[{user d [] }]`},
	} {
		env := written(t, tt.options, strings.ReplaceAll(tt.row, "\n", ""))
		prompts, err := opened(t, env, 0).Prompts()
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintf("%q", prompts[0].Text)
		if len(prompts[0].Messages) > 0 {
			got = fmt.Sprint(prompts[0].Messages)
		}
		if got != tt.want {
			t.Errorf("%s, %s: %s; want %s", tt.options, tt.row, got, tt.want)
		}
	}
}

// TestJudge: a fixed policy is asked after the learner has answered, and what it says is no turn of the learner's.
func TestJudge(t *testing.T) {
	t.Parallel()
	env := written(t, `, "verifier": {"kind": "judge", "policy": "critic"}`,
		`{"prompt": "Name a prime.", "answer": ["2", "3"]}`)
	if got := env.Policies(); !slices.Equal(got, []string{"critic"}) {
		t.Errorf("policies %v", got)
	}
	// One that is held to no choice may write more, or neither.
	for said, want := range map[string]float64{"yes": 1, "no": 0, "**Yes.**\n": 1, "Nobody knows, yes": 0} {
		game := opened(t, env, 0)
		if _, err := game.Act(map[string]string{agent: "3"}); err != nil || game.Done() {
			t.Fatalf("done: %v, %v", game.Done(), err)
		}
		saved, err := game.Checkpoint()
		if err != nil {
			t.Fatal(err)
		}
		if game, err = env.Resume(saved); err != nil {
			t.Fatal(err)
		}
		prompts, err := game.Prompts()
		if err != nil || len(prompts) != 1 || prompts[0].Policy != "critic" || !strings.Contains(prompts[0].Text,
			"Question: Name a prime.\nReference answer: 2 or 3\nGiven answer: 3\n") {
			t.Fatalf("%+v, %v", prompts, err)
		}
		outcome, err := game.Act(map[string]string{judge: said})
		if err != nil || outcome.Counts[countUnparsed] > 0 != strings.Contains(said, "knows") {
			t.Fatalf("%s: %+v, %v", said, outcome, err)
		}
		if result, err := game.Result(); err != nil || result.Rewards[agent] != want {
			t.Errorf("%s: %+v, %v", said, result, err)
		}
	}
}

// TestBrokenRows: each names its line, and the rows beside it are asked all the same.
func TestBrokenRows(t *testing.T) {
	t.Parallel()
	env := written(t, `, "shuffle": false`,
		`{"prompt": "fine", "answer": 1}`,
		`secret`,
		`{"prompt": "no answer"}`,
		`{"question": "no prompt", "answer": 1}`,
		`{"prompt": "long `+strings.Repeat("x", 200_000)+`", "answer": 1}`,
		`{"prompt": "two", "answer": 1} {}`,
		`{"prompt": "fine", "answer": 1}`)
	for seq, want := range []string{"", "line 2 of PATH: no JSON object",
		`line 3 of PATH: field "answer" with the answer is missing`,
		`line 4 of PATH: field "prompt" of the template: is missing`,
		"line 5 of PATH: 200032 bytes; a row has at most 65536", "line 6 of PATH: more than a JSON object", ""} {
		want = strings.ReplaceAll(want, "PATH", env.cfg.Dataset)
		_, err := env.ScenarioOf(rollout.GroupSeq(seq))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("group %d: %v; want %q", seq, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("group %d: the row is quoted: %v", seq, err)
		}
	}
}

// TestDatasetChanges: rows that were added are taken up; a file that is gone, or empty, says so.
func TestDatasetChanges(t *testing.T) {
	t.Parallel()
	env := written(t, `, "shuffle": false`, `{"prompt": "a", "answer": 1}`)
	rows := func() (n int) { n, _ = env.rows.count(); return n }
	if rows() != 1 {
		t.Fatal(rows())
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(env.cfg.Dataset, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("{\"prompt\": \"a\", \"answer\": 1}\r\n{\"prompt\": \"b\", \"answer\": 1}\r\n")
	if rows() != 2 {
		t.Errorf("%d rows after one was added", rows())
	}
	write("\n\n")
	if _, err := env.ScenarioOf(0); err == nil || !strings.Contains(err.Error(), "has no row") {
		t.Errorf("empty: %v", err)
	}
	if err := os.Remove(env.cfg.Dataset); err != nil {
		t.Fatal(err)
	}
	if _, err := env.ScenarioOf(0); err == nil || !strings.Contains(err.Error(), "every worker must see it") {
		t.Errorf("gone: %v", err)
	}
}

// TestBadOptions: each names its key.
func TestBadOptions(t *testing.T) {
	t.Parallel()
	for options, want := range map[string]string{
		`{}`: "dataset: is missing",
		`{"dataset": "a.jsonl", "held_out": "/etc/passwd"}`:                                 "held_out: ",
		`{"dataset": "a.jsonl", "held_out": "./a.jsonl"}`:                                   "held_out: is the dataset",
		`{"dataset": "/etc/passwd"}`:                                                        "does not end in .jsonl",
		`{"dataset": "a.jsonl", "x": 1}`:                                                    `unknown field "x"`,
		`{"dataset": "a.jsonl", "system": "s"}`:                                             "system: is a chat message",
		`{"dataset": "a.jsonl", "constraint": "("}`:                                         "constraint: ",
		`{"dataset": "a.jsonl", "verifier": {"kind": "exakt"}}`:                             "verifier.kind: ",
		`{"dataset": "a.jsonl", "verifier": {"kind": "judge"}}`:                             "verifier.policy: is missing",
		`{"dataset": "a.jsonl", "verifier": {"policy": "p"}}`:                               "verifier.policy: is of kind judge",
		`{"dataset": "a.jsonl", "verifier": {"tolerance": 0.1}}`:                            "verifier.tolerance: is of kind numeric",
		`{"dataset": "a.jsonl", "verifier": {"kind": "numeric", "tolerance": 1}}`:           "verifier.tolerance: 1 is not within",
		`{"dataset": "a.jsonl", "verifier": {"extract": "("}}`:                              "verifier.extract: ",
		`{"dataset": "a.jsonl", "verifier": {"kind": "webhook"}}`:                           `verifier.url: "" is no URL`,
		`{"dataset": "a.jsonl", "verifier": {"url": "http://a"}}`:                           "verifier.url: is of kind webhook",
		`{"dataset": "a.jsonl", "verifier": {"kind": "webhook", "url": "http://a/?key=1"}}`: "only scheme, host, port",
	} {
		if _, err := FromOptions(json.RawMessage(options)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", options, err, want)
		}
	}
}
