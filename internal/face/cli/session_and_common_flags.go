// Package cli is the command line: how a command of millrace is declared, what it answers and how it ends, and the
// commands that talk to a running service. These know the HTTP API and how to show its answers, and nothing of what
// stands behind it. Commands that are the service or read its files (dev, server, worker, plan, simulate) are declared
// in the same way in cmd/millrace.
//
// Data goes to stdout and everything said to a person to stderr, so that output can be piped. With -o json or
// yaml the server's own document is written, whole. Errors say what happened, why, and what to do
// next, and every kind has its exit code.
//
// Start reading at Commands, then Deps.
package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/face/apiclient"
)

// session is what one command line asked for: a server, and how to show its answers.
type session struct {
	Deps
	server string
	format string
}

// flags adds the flags that every client command has.
func (s *session) flags(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringVar(&s.server, "server", "", "URL of the API (default $MILLRACE_SERVER, else "+apiclient.DefaultServer+")")
	f.StringVarP(&s.format, "output", "o", "table", "table, json or yaml; for what goes on, ndjson too")
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		known := append([]string{"table", "json", "yaml"}, strings.Fields(cmd.Annotations[formats])...)
		if !slices.Contains(known, s.format) {
			last := len(known) - 1
			return Usage("-o %s: use %s or %s", s.format, strings.Join(known[:last], ", "), known[last])
		}
		return nil
	}
}

// formats annotates commands with the formats that they can write beside those that all can.
const formats = "formats"

// withLines marks a command that can write a line of JSON for everything it sees.
func withLines(cmd *cobra.Command) *cobra.Command {
	cmd.Annotations = map[string]string{formats: "ndjson"}
	return cmd
}

// client connects to the server that the flags and the environment name.
func (s *session) client() (Client, error) {
	if s.server != "" {
		return s.Client(s.server)
	}
	return s.Client(s.Server())
}

// on makes a command that asks the server, and knows no names.
func (s *session) on(use string, do func(ctx context.Context, c Client) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.client()
			if err != nil {
				return err
			}
			return do(cmd.Context(), c)
		},
	}
}
