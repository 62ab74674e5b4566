package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/face/trainer"
)

func newTrainerCommand(env environment) *cobra.Command {
	parent := &cobra.Command{
		Use:   "trainer",
		Short: "Trainers that come with Millrace",
	}
	parent.AddCommand(newDemoTrainerCommand(env))
	return parent
}

func newDemoTrainerCommand(env environment) *cobra.Command {
	var cfg trainer.Config
	cmd := &cobra.Command{
		Use:   "demo RUN",
		Short: "A trainer that only pretends to train: it claims, sleeps, publishes an adapter, records the step",
		Long: `Attach to a run as a real trainer does, through the public HTTP API alone: claim the batch of each step, check it, spend the time
that the spec's demo section gives each phase, write an adapter directory, publish it and record the step. Killed and started again, it
goes on at the right step.`,
		Example: "  millrace trainer demo diplomacy-qwen7b",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg.Run = args[0]
			cfg.Token = os.Getenv("MILLRACE_TOKEN")
			cfg.Log, cfg.HTTPClient = env.Stderr, env.HTTP
			return trainer.Run(cmd.Context(), cfg)
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Server, "server", env.Server(), "URL of the API server ($MILLRACE_SERVER)")
	f.StringVar(&cfg.AdapterDir, "adapters", "",
		"folder to write adapters to, at or below the spec's adapters.path_prefix, which is the default; "+
			"engines must see it under the same path")
	f.StringVar(&cfg.Journal, "journal", "", "append what was trained on, a JSON line per step, to this file")
	f.Float64Var(&cfg.Speed, "speed", 0, "divide all times by this (default: the spec's demo.speed)")
	return cmd
}
