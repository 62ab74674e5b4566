package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/kit/settings"
)

// refuseWrongArguments makes cobra's complaints about arguments usage errors. A command that only holds others refuses
// an unknown subcommand: cobra would print help and exit with success, which misleads scripts.
func refuseWrongArguments(cmd *cobra.Command) {
	check := cmd.Args
	if check == nil && !cmd.Runnable() {
		check = onlyCommands
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if check == nil {
			return nil
		}
		if err := check(cmd, args); err != nil {
			return Usage("%v: %s; see %s --help", err, cmd.UseLine(), cmd.CommandPath())
		}
		return nil
	}
	for _, c := range cmd.Commands() {
		refuseWrongArguments(c)
	}
}

// onlyCommands refuses a word that names no command, with the nearest one that does.
func onlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := nearestCommand(cmd, args[0]); near != "" {
		return fmt.Errorf("unknown command %q for %q; did you mean %s?", args[0], cmd.CommandPath(), near)
	}
	return fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
}

// nearestCommand is the command below cmd that word most likely means, or "".
func nearestCommand(cmd *cobra.Command, word string) string {
	cmd.SuggestionsMinimumDistance = 2
	near := cmd.SuggestionsFor(word) // in the order of the alphabet: alike, or longer
	if longer := slices.IndexFunc(near, func(name string) bool { return strings.HasPrefix(name, word) }); longer >= 0 {
		return near[longer]
	}
	return settings.Nearest(word, near)
}
