package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestHelpIsNarrow reads every command's help: no paragraph and no flag is beyond the width.
func TestHelpIsNarrow(t *testing.T) {
	t.Parallel()
	var read func(*cobra.Command)
	read = func(cmd *cobra.Command) {
		for line := range strings.SplitSeq(cmd.Long, "\n") {
			if !strings.HasPrefix(line, " ") && len([]rune(line)) > helpWidth {
				t.Errorf("%s: %s", cmd.CommandPath(), line)
			}
		}
		for line := range strings.SplitSeq(cmd.LocalFlags().FlagUsagesWrapped(helpWidth), "\n") {
			if len([]rune(line)) > helpWidth {
				t.Errorf("%s: %s", cmd.CommandPath(), line)
			}
		}
		for _, c := range cmd.Commands() {
			read(c)
		}
	}
	root := newRootCommand(environment{})
	read(root)
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs([]string{"dev", "--help"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	if _, flags, found := strings.Cut(out.String(), "\nFlags:\n"); !found {
		t.Error("dev --help has no flags")
	} else {
		for line := range strings.SplitSeq(flags, "\n") {
			if len([]rune(line)) > helpWidth {
				t.Errorf("dev --help: %s", line)
			}
		}
	}
}

func TestFoldText(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 30)
	for _, tt := range []struct{ name, text, want string }{
		{"short lines stay", "one\ntwo\n\n  a table  b\n", "one\ntwo\n\n  a table  b\n"},
		{"a long line is wrapped with its paragraph", "begin\n" + long + "\n\nnext",
			"begin " + strings.TrimSpace(strings.Repeat("word ", 19)) + "\n" +
				strings.TrimSpace(strings.Repeat("word ", 11)) + "\n\nnext"},
		{"what is indented stays", "  " + long, "  " + long},
	} {
		if got := foldText(tt.text); got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}
