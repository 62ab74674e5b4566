package main

import (
	"bytes"
	"testing"

	engineprocess "github.com/millrace/millrace/internal/scaling/provider/process"
)

// What the provider starts is a command of this program, and the help says whose it is.
func TestKeepersAreACommand(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	args := append([]string{}, engineprocess.KeeperArgs...)
	if code := run(t.Context(), append(args, t.TempDir()+"/gone", "attempt"), nil, &stdout, &stderr); code != 0 {
		t.Errorf("an order that is gone: code %d, %s", code, stderr.String())
	}
	stdout.Reset()
	run(t.Context(), []string{"engine", "--help"}, nil, &stdout, &stderr)
	if !bytes.Contains(stdout.Bytes(), []byte("workers start this, not people")) {
		t.Errorf("%s", stdout.String())
	}
}
