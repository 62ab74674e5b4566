package main

import (
	"cmp"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/face/demotrainer"
)

func newTrainerCommand(env environment) *cobra.Command {
	parent := &cobra.Command{Use: "trainer"}
	parent.AddCommand(newDemoTrainerCommand(env))
	return parent
}

func newDemoTrainerCommand(env environment) *cobra.Command {
	cfg := demotrainer.Config{LearningRate: demotrainer.DefaultLearningRate}
	cmd := &cobra.Command{
		Use:  "demo RUN",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg.Run, cfg.Server = args[0], cmp.Or(cfg.Server, env.Server())
			cfg.Token = os.Getenv("MILLRACE_TOKEN")
			cfg.Log, cfg.HTTPClient = env.Stderr, env.HTTP
			return demotrainer.Run(cmd.Context(), cfg)
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Server, "server", "", "URL of the API (default $MILLRACE_SERVER, else "+apiclient.DefaultServer+")")
	f.StringVar(&cfg.AdapterDir, "adapters", "",
		"folder to write adapters to, at or below the spec's adapters.path_prefix, which is the default; "+
			"engines must see it under the same path")
	f.StringVar(&cfg.Journal, "journal", "", "append what was trained on, a JSON line per step, to this file")
	f.Float64Var(&cfg.Speed, "speed", 20, "divide all times by this")
	f.BoolVar(&cfg.Learn, "learn", false, "train the policy that millrace engine simulate --policy serves")
	f.DurationVar(&cfg.Load, "load", 5*time.Second, "time to load a batch")
	f.DurationVar(&cfg.RefLogprobs, "ref-logprobs", 30*time.Second, "time for reference log-probabilities")
	f.DurationVar(&cfg.Train, "train", time.Minute, "time to train")
	f.DurationVar(&cfg.Publish, "publish", 5*time.Second, "time to write an adapter")
	return cmd
}
