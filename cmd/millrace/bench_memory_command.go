package main

import (
	"fmt"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/bench/memorycost"
)

func newBenchMemoryCommand(env environment) *cobra.Command {
	cfg := memorycost.DefaultConfig()
	var format, temporal, keep string
	cmd := &cobra.Command{
		Use:   "memory",
		Short: "Hold many games in play: memory of a worker per game, of Redis per token, of a server per waiting claim",
		Long: `Start the whole service as real processes on loopback ports, let so many games begin on engines that hold their answers, and look at the
memory of the worker and of Redis, by what its keys are for, when all games are in their first phase, when all are in their last, and
when their groups are ready and claimed. What one game takes is the slope over several numbers of games. Before that, so many claims
wait for a batch, and the server is looked at.

It needs Linux, the Temporal CLI and redis-server.`,
		Example: `  millrace bench memory
  millrace bench memory --games 204,1002 --phases 40`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := benchFormat(format); err != nil {
				return err
			}
			cfg.Say = env.say
			if err := cfg.Validate(); err != nil {
				return usage("%v", err)
			}
			var err error
			if cfg.Millrace, err = os.Executable(); err != nil {
				return err
			}
			if cfg.Temporal, err = temporalBinary(temporal); err != nil {
				return err
			}
			if cfg.Redis, err = exec.LookPath("redis-server"); err != nil {
				return fmt.Errorf("redis-server is needed on the PATH: %w", err)
			}
			dir, remove, err := trialDir(keep)
			if err != nil {
				return err
			}
			defer remove()
			cfg.Dir = dir
			res, err := memorycost.Measure(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			return env.writeBench(format, res)
		},
	}
	f := cmd.Flags()
	f.IntSliceVar(&cfg.Games, "games", cfg.Games, "numbers of games in play, each on a service of its own")
	f.IntSliceVar(&cfg.Claims, "claims", cfg.Claims, "numbers of claims that wait, as many numbers as for --games")
	f.IntVar(&cfg.Phases, "phases", cfg.Phases, "phases of a game")
	f.IntVar(&cfg.Samples, "samples", cfg.Samples, "games of a group")
	f.StringVar(&temporal, "temporal-bin", "", temporalFlag)
	f.StringVar(&keep, "keep", "", "write logs and databases here and leave them")
	f.StringVarP(&format, "output", "o", "table", "table or json")
	return cmd
}
