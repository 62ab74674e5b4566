package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCompletionInShells: what `millrace completion` prints completes commands in the shells themselves, those that are
// here.
func TestCompletionInShells(t *testing.T) {
	t.Parallel()
	dir := filepath.Dir(script(t, "millrace", "MILLRACE_TEST_AS_BINARY=1 exec "+os.Args[0]+` "$@"`+"\n"))
	for shell, tt := range map[string]struct {
		needs  string
		args   []string
		script string
	}{
		"bash": {"/usr/share/bash-completion/bash_completion", []string{"--norc", "-c"},
			`source /usr/share/bash-completion/bash_completion; source <(millrace completion bash)
			COMP_WORDS=(millrace engine dra) COMP_CWORD=2 COMP_LINE="millrace engine dra" COMP_POINT=19 COMP_TYPE=9
			__start_millrace; echo "${COMPREPLY[@]}"`},
		"fish": {"", []string{"--no-config", "-c"}, `millrace completion fish | source; complete -C "millrace engine dra"`},
		"zsh": {"", []string{"-f", "-c"}, `zmodload zsh/zpty; zpty -b z zsh -f -i
			zpty -w z 'autoload -U compinit; compinit -u -D; source <(millrace completion zsh); echo SET "UP"'
			zpty -r -m z line '*SET UP*'
			zpty -w -n z $'millrace engine dra\t'; zpty -r -m z line '*drain*'; print -r -- "$line"`},
	} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(shell); err != nil {
				t.Skipf("no %s on the PATH", shell)
			}
			if _, err := os.Stat(tt.needs); tt.needs != "" && err != nil {
				t.Skipf("%s completes nothing without its package of completions: %v", shell, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), awaitFor)
			defer cancel()
			cmd := exec.CommandContext(ctx, shell, append(tt.args, tt.script)...)
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "TERM=dumb", "HOME="+dir)
			out, err := cmd.Output()
			if err != nil || !strings.Contains(string(out), "drain") {
				t.Errorf("%v, %q", err, out)
			}
		})
	}
}
