package main

import (
	"cmp"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/bench/workerrestart"
)

func newBenchRestartCommand(env environment) *cobra.Command {
	cfg := workerrestart.DefaultConfig()
	var format, temporal, keep, binary string
	cmd := &cobra.Command{
		Use:   "restart",
		Short: "Restart one of two saturated workers: how much of the engines stays in use",
		Long: `Start the whole service as real processes on loopback ports (Redis, the Temporal dev server, a server and two workers) with engines
that take a fixed time for an answer, and give both workers more games than the engines have slots for. Then stop one worker (it
comes back at once), later kill one, and compare the slots in use from then on with those just before. Both are measured in the same
run, so that other work of the machine matters little.

It needs the Temporal CLI and redis-server.`,
		Example: `  millrace bench restart
  millrace bench restart --limit 64 --window 60s
  millrace bench restart --binary /opt/millrace-before/millrace`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := benchFormat(format); err != nil {
				return err
			}
			cfg.Say = env.say
			if err := cfg.Validate(); err != nil {
				return usage("%v", err)
			}
			self, err := os.Executable()
			if err != nil {
				return err
			}
			cfg.Millrace = cmp.Or(binary, self)
			if cfg.Temporal, err = temporalBinary(temporal); err != nil {
				return err
			}
			if cfg.Redis, err = exec.LookPath("redis-server"); err != nil {
				return err
			}
			dir, remove, err := trialDir(keep)
			if err != nil {
				return err
			}
			defer remove()
			cfg.Dir = dir
			res, err := workerrestart.Measure(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			return env.writeBench(format, res)
		},
	}
	f := cmd.Flags()
	f.IntVar(&cfg.Limit, "limit", cfg.Limit, "requests in flight at one engine")
	f.DurationVar(&cfg.After, "after", cfg.After, "how long engines take for an answer")
	f.DurationVar(&cfg.Window, "window", cfg.Window, "how long to measure, before and from the worker's end on")
	f.StringVar(&binary, "binary", "", "measure this millrace, such as an earlier version (default: this program)")
	f.StringVar(&temporal, "temporal-bin", "", temporalFlag)
	f.StringVar(&keep, "keep", "", "write logs and databases here and leave them")
	f.StringVarP(&format, "output", "o", "table", "table or json")
	return cmd
}
