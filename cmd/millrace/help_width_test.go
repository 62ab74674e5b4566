package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/face/cli"
)

// helpWidth is where help is wrapped.
const helpWidth = 100

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
	root := newRootCommand(environment{cli.Deps{Getenv: os.Getenv}})
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
