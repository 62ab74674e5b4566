package diplomacyenv

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/game/diplomacy"
	"github.com/millrace/millrace/internal/game/episode"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("not as in %s:\n%s", file, got)
	}
}

// starts are positions of one phase of each type.
var starts = map[string]string{
	"movement": `{"name":"F1902M","units":{"FRANCE":["A BUR","F MAO","A PAR"],"GERMANY":["A MUN","A RUH"],"RUSSIA":["F STP/SC"]},
		"centers":{"FRANCE":["PAR","BRE","MAR"],"GERMANY":["MUN","BER"],"RUSSIA":["STP"]}}`,
	"retreats": `{"name":"F1902R","units":{"FRANCE":["A BUR"],"GERMANY":["A RUH"]},"centers":{"FRANCE":["PAR"],"GERMANY":["BER"]},
		"dislodged":{"GERMANY":{"A BUR":["MUN","BEL"]},"FRANCE":{"F MAO":["SPA/NC","POR"]}}}`,
	"builds":   `{"name":"W1902A","units":{"RUSSIA":["A UKR"],"FRANCE":["A PAR"]},"centers":{"RUSSIA":["MOS","SEV","STP"],"FRANCE":["PAR"]}}`,
	"removals": `{"name":"W1902A","units":{"FRANCE":["A BUR","F MAO","A PAR"]},"centers":{"FRANCE":["PAR","BRE"]}}`,
}

func prompts(t *testing.T, env *Env) []episode.Prompt {
	t.Helper()
	list, err := startGame(t, env, 1, 0).Prompts()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestPrompts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, start, options string }{
		{"movement", "movement", ``},
		{"movement-everything", "movement", `,"prompt":{"legal_orders":true,"threats":true}`},
		{"retreats", "retreats", ``},
		{"builds", "builds", ``},
		{"removals", "removals", `,"constraint":"grammar"`},
		{"free", "removals", `,"constraint":"none"`},
		{"template", "removals", `,"prompt":{"chat_template":"<s>{system}</s><u>{user}</u>"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var b strings.Builder
			for _, p := range prompts(t, newEnv(t, `{"start":`+starts[tt.start]+tt.options+`}`)) {
				b.WriteString("=== " + p.Agent + "\n" + p.Text + "=== constraint " + string(p.Constraint.Kind) + "\n" +
					p.Constraint.Pattern + "\n")
				if len(p.Stop) > 0 {
					b.WriteString("=== stops at an empty line\n")
				}
			}
			golden(t, tt.name+".txt", b.String())
		})
	}
}

// Engines keep common beginnings: all prompts share the rules, and those of a phase the board.
func TestPromptsShareTheirBeginning(t *testing.T) {
	t.Parallel()
	env := newEnv(t, `{"prompt":{"history_phases":1}}`)
	list := prompts(t, env)
	if len(list) != 7 {
		t.Fatalf("%d prompts", len(list))
	}
	for _, p := range list[1:] {
		common := 0
		for common < min(len(p.Text), len(list[0].Text)) && p.Text[common] == list[0].Text[common] {
			common++
		}
		if !strings.HasPrefix(p.Text, env.rules) || common < strings.Index(p.Text, "You are ") {
			t.Errorf("%s shares %d bytes of its prompt", p.Agent, common)
		}
	}
}

// The units of a prompt are the lines of its constraint, in the same order.
func TestPromptOrderIsConstraintOrder(t *testing.T) {
	t.Parallel()
	unit := regexp.MustCompile(`^[AF] [A-Z]{3}(/[NSEW]C)?`)
	for _, start := range []string{"movement", "retreats"} {
		for _, p := range prompts(t, newEnv(t, `{"start":`+starts[start]+`}`)) {
			var asked []string
			for line := range strings.Lines(p.Text[strings.Index(p.Text, "You are "):]) {
				if u := unit.FindString(line); u != "" {
					asked = append(asked, u)
				}
			}
			lines := strings.Split(strings.TrimSuffix(p.Constraint.Pattern, `\n`), `\n`)
			if len(lines) != len(asked) {
				t.Fatalf("%s: asked for %v, constraint %s", p.Agent, asked, p.Constraint.Pattern)
			}
			for i := range lines {
				if unit.FindString(lines[i]) != asked[i] {
					t.Errorf("%s: line %d orders %s, asked for %s", p.Agent, i, lines[i], asked[i])
				}
			}
		}
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	g := startGame(t, newEnv(t, `{"prompt":{"history_phases":1}}`), 1, 0)
	answers := map[string]string{}
	for _, name := range diplomacy.Standard().Powers() {
		answers[name] = ""
	}
	answers["RUSSIA"], answers["TURKEY"] = "F SEV - BLA\n", "F ANK - BLA\n"
	if _, err := g.Act(answers); err != nil {
		t.Fatal(err)
	}
	list, err := g.Prompts()
	if err != nil {
		t.Fatal(err)
	}
	want := "RUSSIA: F SEV - BLA (bounce), F STP/SC H"
	if !strings.Contains(list[0].Text, "\nS1901M; AUSTRIA: ") || !strings.Contains(list[0].Text, "F SEV - BLA (bounce)") {
		t.Errorf("no history, such as %q, in\n%s", want, list[0].Text)
	}
}
