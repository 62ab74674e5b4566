package main

import (
	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/face/demotrainer"
	"github.com/millrace/millrace/internal/face/demotrainer/trainertest"
)

// newTrainerCommand is the demo trainer with a memory that outlives it: killed, it goes back to its last
// checkpoint.
func newTrainerCommand(env environment) *cobra.Command {
	var cfg demotrainer.Config
	var events, checkpoints string
	var every int
	cmd := &cobra.Command{
		Use:   "trainer RUN",
		Short: "The demo trainer, resuming from checkpoints and writing down what it is granted and refused",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg.Run, cfg.Log = args[0], env.stderr
			if events != "" {
				cfg.Heard = trainertest.Log(events)
			}
			if checkpoints != "" {
				var err error
				if cfg.Checkpoints, err = trainertest.OpenCheckpoints(checkpoints, every); err != nil {
					return err
				}
			}
			return demotrainer.Run(cmd.Context(), cfg)
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Server, "server", "", "URL of the API server")
	f.StringVar(&cfg.AdapterDir, "adapters", "adapters", "folder to write adapters to")
	f.StringVar(&cfg.Journal, "journal", "", "append what was trained on to this file")
	f.DurationVar(&cfg.Train, "train", 0, "time to train")
	f.StringVar(&events, "events", "", "append what was granted and refused to this file")
	f.StringVar(&checkpoints, "checkpoints", "", "folder of checkpoints")
	f.IntVar(&every, "checkpoint-every", 1, "steps between two checkpoints")
	f.Int64Var(&cfg.Weights, "weights", 0, "which training the weights come of; but for 0, all share the "+
		"paths of adapters")
	return cmd
}
