package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/trials/bench/saturation"
	"github.com/millrace/millrace/trials/stack"
)

func newBenchScaleCommand(env environment) *cobra.Command {
	cfg := saturation.DefaultConfig()
	var format string
	trial := &serviceTrial{}
	var seconds float64
	cmd := &cobra.Command{
		Use:   "scale",
		Short: "Raise the load of the whole service with many engines until it plays no more: which part is full",
		Long: `Start the whole service as real processes on loopback ports (a Redis Cluster, the Temporal dev server, a server, several workers), with
many engines whose answers take as long as a model says, and a trainer that takes every batch. Raise the number of games in play until
turns per second stop growing, and say what each part has used of the machine, by the kernel's account, which is the dearest, and how
evenly engines and workers were used.

The engines are in this process and cost less than what is measured, but not nothing: their line says how much. On a machine that does
other work, or with few cores, turns per second are the machine's; processor time per turn changes little.`,
		Example: `  millrace-lab bench scale
  millrace-lab bench scale --engines 64 --workers 4 --masters 3 --depths 4,16,64
  millrace-lab bench scale --engines 8 --workers 2 --masters 1 --seconds 5 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Say, cfg.For = env.say, time.Duration(seconds*float64(time.Second))
			return trial.bench(env, format, cfg.Validate, func(programs stack.Programs, dir string) (measured, error) {
				cfg.Programs, cfg.Dir = programs, dir
				return saturation.Measure(cmd.Context(), cfg)
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&cfg.Engines, "engines", cfg.Engines, "engines")
	f.IntVar(&cfg.Workers, "workers", cfg.Workers, "worker processes")
	f.IntVar(&cfg.Masters, "masters", cfg.Masters, "masters of the Redis Cluster; 1 is no Cluster")
	f.IntSliceVar(&cfg.Depths, "depths", cfg.Depths, "levels of load: the buffer's depth in steps, one after the other")
	f.IntVar(&cfg.Groups, "groups", cfg.Groups, "groups of a step")
	f.IntVar(&cfg.Samples, "samples", cfg.Samples, "games of a group")
	f.IntVar(&cfg.Phases, "phases", cfg.Phases, "phases of a game")
	f.IntVar(&cfg.InFlight, "in-flight", cfg.InFlight, "requests that an engine may have in flight")
	f.DurationVar(&cfg.Call, "call", cfg.Call, "how long a request takes at an engine that has as many in flight")
	f.Float64Var(&seconds, "seconds", cfg.For.Seconds(), "how long each level of load is measured")
	trial.add(f)
	f.StringVarP(&format, "output", "o", "table", "table or json")
	return cmd
}
