package cli

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/spec"
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

// settingsHelp lists the keys of a running run that can be set, with what they take and mean.
func settingsHelp() string {
	var b strings.Builder
	for _, key := range spec.Live() {
		const indent = "\n      "
		fmt.Fprintf(&b, "  %s: %s%s%s\n", key.Path, key.Values(&runspec.Spec{}), indent,
			strings.Join(wrapped(key.Doc, 80-len(indent), true), indent))
	}
	return strings.TrimRight(b.String(), "\n")
}

// offeredSettings is the keys for completion.
func offeredSettings() []string {
	var offers []string
	for _, key := range spec.Live() {
		offers = append(offers, key.Path+"=\t"+key.Values(&runspec.Spec{}))
	}
	return offers
}
