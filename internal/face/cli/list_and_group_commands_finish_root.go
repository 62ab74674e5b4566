package cli

import (
	"github.com/spf13/cobra"
)

// Commands makes the client commands, to be added to a root command that Finish makes ready.
func Commands(d Deps) []*cobra.Command {
	return []*cobra.Command{newRunCommand(d), newEngineCommand(d), newDiagnoseCommand(d), newEvalCommand(d),
		newStatusCommand(d), newAxiomCommand(d), newEventsCommand(d), newTopCommand(d)}
}

// Group adds commands under a heading of their parent's help.
func Group(parent *cobra.Command, heading string, commands ...*cobra.Command) {
	parent.AddGroup(&cobra.Group{ID: heading, Title: heading})
	for _, c := range commands {
		c.GroupID = heading
	}
	parent.AddCommand(commands...)
}

// Finish makes a root command and all below it ready: each has its help, and whatever is wrong with a command line ends
// with ExitUsage and says what to write.
func Finish(root *cobra.Command) {
	writeHelp(root)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Usage("%v; see --help", err) })
	refuseWrongArguments(root)
}
