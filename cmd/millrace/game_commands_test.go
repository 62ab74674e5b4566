package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGameCommands runs the commands that need no service.
func TestGameCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const start = `"units":{"FRANCE":["A PAR"]},"centers":{"FRANCE":["PAR"]}`
	good := `{"id":"g","phases":[{"name":"S1901M",` + start + `,"orders":{}},{"name":"F1901M",` + start + `}]}` + "\n"
	bad := strings.Replace(good, `["A PAR"]},"centers":{"FRANCE":["PAR"]},"orders"`,
		`["A BUR"]},"centers":{"FRANCE":["PAR"]},"orders"`, 1)
	board := filepath.Join("..", "..", "internal", "diplomacyview", "testdata", "pond.json")
	for _, tt := range []struct {
		args string
		code int
		want string // on stdout or stderr
	}{
		{"play --years 1", 0, "Nobody has won."},
		{"play --bots --years 1", 0, "Nobody has won."},
		{"play --bots hold --years 1", 0, "2 phases played."},
		{"play --bots=hold --years 1 --power france=random -o json", 0, `"id":"bots-1"`},
		{"play --years 1 --orders", 0, "Spring 1901, moves"},
		{"play --map " + board + " --years 2", 0, "Green confederation"},
		{"play --map " + board + " --svg " + dir, 1, "standard board only"},
		{"play --svg " + filepath.Join(dir, "maps") + " --years 1", 0, "maps in"},
		{"play --bots nobody", 2, `no bot "nobody"`},
		{"play --power ATLANTIS=dumb", 2, "ATLANTIS"},
		{"play dumb", 2, `unexpected argument "dumb"`},
		{"play --years -1", 2, "-1 years"},
		{"play -o yaml", 2, "yaml"},
		{"replay " + file("good.jsonl", good+good), 0, "2 games, 2 phases, 0 mismatches"},
		{"replay -o json " + file("one.jsonl", good), 0, `"mismatches":0`},
		{"replay " + file("bad.jsonl", good+bad), 1, "units: FRANCE: got A BUR, recorded A PAR"},
		{"replay " + file("cut.jsonl", good+bad[:40]), 1, "cut.jsonl: read game 2: it is cut off"},
		{"replay " + file("list.jsonl", "["+good+"]"), 1, "not an array"},
		{"replay " + file("types.jsonl", `{"id":7}`), 1, "id cannot be a number"},
		{"replay " + file("empty.jsonl", ""), 1, "no games"},
		{"replay " + file("other.jsonl", `{"foo":1}`), 1, "no phases"},
		{"replay --map " + board + " " + file("strange.jsonl", good), 1, "not on this map"},
		{"replay " + filepath.Join(dir, "absent.jsonl"), 2, "no such file"},
		{"replay --map " + file("board.json", "{}") + " x.jsonl", 2, "board.json"},
		{"show " + file("recorded.jsonl", good), 2, "millrace game replay"},
		{"show " + file("nothing.json", "{}"), 1, "no phases"},
		{"show " + file("broken.json", "hello"), 1, "broken.json"},
		{"show demo/1", 2, "RUN/GROUP/EPISODE"},
		{"show -o yaml demo/1/1", 2, "yaml"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			var out bytes.Buffer
			code := run(t.Context(), append([]string{"game"}, strings.Fields(tt.args)...), strings.NewReader(""), &out, &out)
			if code != tt.code || !strings.Contains(out.String(), tt.want) {
				t.Errorf("exit code %d, want %d with %q:\n%s", code, tt.code, tt.want, out.String())
			}
		})
	}
}
