package cli

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
)

//go:embed help.yaml
var helpFile []byte

// helpText is what the help of a command says beside its flags.
type helpText struct{ Short, Long, Example string }

// writeHelp gives a command and all below it their texts. help.yaml must have every command: the program does not start
// otherwise.
func writeHelp(root *cobra.Command) {
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages ", ".FlagUsagesWrapped 100 "))
	var texts map[string]helpText
	if err := yaml.UnmarshalWithOptions(helpFile, &texts, yaml.Strict()); err != nil {
		panic(fmt.Errorf("help.yaml: %w", err)) // it is a part of the program
	}
	var write func(*cobra.Command)
	write = func(cmd *cobra.Command) {
		text, known := texts[cmd.CommandPath()]
		if !known {
			panic(cmd.CommandPath() + " has no help; describe it in help.yaml")
		}
		cmd.Short, cmd.Long = text.Short, strings.Replace(text.Long, "KEYS", cmd.Long, 1)
		if text.Example != "" {
			cmd.Example = "  " + strings.ReplaceAll(text.Example, "\n", "\n  ")
		}
		for _, below := range cmd.Commands() {
			write(below)
		}
	}
	write(root)
}
