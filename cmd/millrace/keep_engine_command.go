package main

import (
	"github.com/spf13/cobra"

	engineprocess "github.com/millrace/millrace/internal/scaling/provider/process"
)

// newKeepEngineCommand is how the provider of processes runs its keepers; its KeeperArgs names it.
func newKeepEngineCommand() *cobra.Command {
	return &cobra.Command{
		Use:  "keep FOLDER ATTEMPT",
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error { return engineprocess.Keep(args[0], args[1]) },
	}
}
