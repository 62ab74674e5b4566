package main

import (
	"context"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/trials/crashtest/outside"
)

// newProgramCommand plays games of a run of kind external, as badly as programs do.
func newProgramCommand(environment) *cobra.Command {
	var p outside.Program
	cmd := &cobra.Command{
		Use:   "program RUN",
		Short: "Play a run's games of kind external, with crashes, lies and doubles, and write down the answers",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.Run = args[0]
			return p.Play(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&p.Server, "server", "", "URL of the API server")
	cmd.Flags().StringVar(&p.Journal, "journal", "", "append what was answered to this file")
	return cmd
}

// newEnvironmentCommand serves games of kind openenv.
func newEnvironmentCommand(environment) *cobra.Command {
	return &cobra.Command{
		Use:   "environment ADDRESS",
		Short: "Serve a game of two players behind OpenEnv's socket",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			server := &http.Server{Addr: args[0], Handler: &outside.Environment{}, ReadHeaderTimeout: time.Minute}
			stop := context.AfterFunc(cmd.Context(), func() { _ = server.Close() })
			defer stop()
			if err := server.ListenAndServe(); cmd.Context().Err() == nil {
				return err
			}
			return nil
		},
	}
}
