package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/kit/version"
)

func newVersionCommand(env environment) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program: release, commit, date and Go version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			build := version.Build()
			switch format {
			case "table":
				_, err := fmt.Fprintln(env.Stdout, build)
				return err
			case "json":
				out := json.NewEncoder(env.Stdout)
				out.SetIndent("", "  ")
				return out.Encode(build)
			}
			return usage("--output %s: want table or json", format)
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "table", "table or json")
	return cmd
}
