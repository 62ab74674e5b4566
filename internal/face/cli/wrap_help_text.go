package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// helpWidth is where help is wrapped: half of a wide screen, all of a narrow one.
const helpWidth = 100

// foldHelp wraps the help of a command and of all below it: paragraphs with a line that is too long, and what its flags
// are for. Lines that begin with a space stand as they are written: lists, tables and examples.
func foldHelp(root *cobra.Command) {
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages ", ".FlagUsagesWrapped 100 "))
	var fold func(*cobra.Command)
	fold = func(cmd *cobra.Command) {
		cmd.Long = foldText(cmd.Long)
		for _, c := range cmd.Commands() {
			fold(c)
		}
	}
	fold(root)
}

func foldText(text string) string {
	var out, paragraph []string
	long := false
	end := func() {
		if long {
			paragraph = wrapped(strings.Join(paragraph, " "), helpWidth, true)
		}
		out, paragraph, long = append(out, paragraph...), nil, false
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" || strings.HasPrefix(line, " ") {
			end()
			out = append(out, line)
			continue
		}
		paragraph, long = append(paragraph, line), long || len([]rune(line)) > helpWidth
	}
	end()
	return strings.Join(out, "\n")
}
