package cli

import (
	"fmt"
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
	for _, tt := range []struct {
		args string
		code int
		want string // on stdout or stderr
	}{
		{"" + file("recorded.jsonl", good), 2, "takes one saved game"},
		{"" + file("nothing.json", "{}"), 1, "no phases"},
		{"" + file("broken.json", "hello"), 1, "broken.json"},
		{"demo/1", 2, "RUN/GROUP/EPISODE"},
		{"-o yaml demo/1/1", 2, "yaml"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			got, _ := command(t, nil, "", nil, append([]string{"run", "game"}, strings.Fields(tt.args)...)...)
			if text := fmt.Sprint(got.stdout, got.stderr, got.err); got.code != tt.code || !strings.Contains(text, tt.want) {
				t.Errorf("exit code %d, want %d with %q:\n%s", got.code, tt.code, tt.want, text)
			}
		})
	}
}
