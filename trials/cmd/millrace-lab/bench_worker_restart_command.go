package main

import (
	"github.com/spf13/cobra"

	"github.com/millrace/millrace/trials/bench/workerrestart"
	"github.com/millrace/millrace/trials/stack"
)

func newBenchRestartCommand(env environment) *cobra.Command {
	cfg := workerrestart.DefaultConfig()
	var format string
	trial := &serviceTrial{}
	cmd := &cobra.Command{
		Use:   "restart",
		Short: "Restart one of two saturated workers: how much of the engines stays in use",
		Long: `Start the whole service as real processes on loopback ports (Redis, the Temporal dev server, a server and two workers) with engines
that take a fixed time for an answer, and give both workers more games than the engines have slots for. Then stop one worker (it
comes back at once), later kill one, and compare the slots in use from then on with those just before. Both are measured in the same
run, so that other work of the machine matters little.

It needs the Temporal CLI and redis-server.`,
		Example: `  millrace-lab bench restart
  millrace-lab bench restart --limit 64 --window 60s
  millrace-lab bench restart --millrace /opt/millrace-before/millrace`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Say = env.say
			return trial.bench(env, format, cfg.Validate, func(programs stack.Programs, dir string) (measured, error) {
				cfg.Programs, cfg.Dir = programs, dir
				return workerrestart.Measure(cmd.Context(), cfg)
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&cfg.Limit, "limit", cfg.Limit, "requests in flight at one engine")
	f.DurationVar(&cfg.After, "after", cfg.After, "how long engines take for an answer")
	f.DurationVar(&cfg.Window, "window", cfg.Window, "how long to measure, before and from the worker's end on")
	trial.add(f)
	f.StringVarP(&format, "output", "o", "table", "table or json")
	return cmd
}
