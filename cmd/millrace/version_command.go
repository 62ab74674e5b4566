package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/version"
)

func newVersionCommand(env environment) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(env.stdout, "millrace %s, %s %s/%s\n", version.String(), runtime.Version(),
				runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
