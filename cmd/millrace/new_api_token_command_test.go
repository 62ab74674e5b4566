package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/face/access"
)

// TestTokenNewMakesALineThatLetsTheTokenIn: the token alone on standard output, and its hash alone in the line.
func TestTokenNewMakesALineThatLetsTheTokenIn(t *testing.T) {
	t.Parallel()
	var out, said bytes.Buffer
	args := []string{"config", "token", "--name", "gpu box", "--role", "trainer", "--run", "diplomacy-*", "--expires",
		"2027-01-31T00:00:00Z"}
	if code := run(t.Context(), args, strings.NewReader(""), &out, &said); code != 0 {
		t.Fatalf("exit code %d: %s", code, &said)
	}
	token := strings.TrimSpace(out.String())
	if strings.Contains(said.String(), token) {
		t.Error("the token is printed twice")
	}
	line := said.String()[strings.Index(said.String(), "- {"):]
	grants, err := access.ReadTokens("tokens.yaml", []byte("tokens:\n  "+line))
	if err != nil {
		t.Fatal(err)
	}
	if len(grants) != 1 || grants[0].Hash != access.HashOf(token) || !grants[0].Covers("diplomacy-7b") ||
		grants[0].Name != "gpu box" {
		t.Errorf("got %+v", grants)
	}
	if code := run(t.Context(), []string{"config", "token", "--role", "trainer"}, strings.NewReader(""), &out,
		&said); code != 2 {
		t.Errorf("a trainer of no run: exit code %d, want 2", code)
	}
}
