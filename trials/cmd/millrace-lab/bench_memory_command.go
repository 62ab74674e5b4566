package main

import (
	"github.com/spf13/cobra"

	"github.com/millrace/millrace/trials/bench/memorycost"
	"github.com/millrace/millrace/trials/stack"
)

func newBenchMemoryCommand(env environment) *cobra.Command {
	cfg := memorycost.DefaultConfig()
	var format string
	trial := &serviceTrial{}
	cmd := &cobra.Command{
		Use:   "memory",
		Short: "Hold many games in play: memory of a worker per game, of Redis per token, of a server per waiting claim",
		Long: `Start the whole service as real processes on loopback ports, let so many games begin on engines that hold their answers, and look at the
memory of the worker and of Redis, by what its keys are for, when all games are in their first phase, when all are in their last, and
when their groups are ready and claimed. What one game takes is the slope over several numbers of games. Before that, so many claims
wait for a batch, and the server is looked at.

It needs Linux, the Temporal CLI and redis-server.`,
		Example: `  millrace-lab bench memory
  millrace-lab bench memory --games 204,1002 --phases 40`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Say = env.say
			return trial.bench(env, format, cfg.Validate, func(programs stack.Programs, dir string) (measured, error) {
				cfg.Programs, cfg.Dir = programs, dir
				return memorycost.Measure(cmd.Context(), cfg)
			})
		},
	}
	f := cmd.Flags()
	f.IntSliceVar(&cfg.Games, "games", cfg.Games, "numbers of games in play, each on a service of its own")
	f.IntSliceVar(&cfg.Claims, "claims", cfg.Claims, "numbers of claims that wait, as many numbers as for --games")
	f.IntVar(&cfg.Phases, "phases", cfg.Phases, "phases of a game")
	f.IntVar(&cfg.Samples, "samples", cfg.Samples, "games of a group")
	trial.add(f)
	f.StringVarP(&format, "output", "o", "table", "table or json")
	return cmd
}
