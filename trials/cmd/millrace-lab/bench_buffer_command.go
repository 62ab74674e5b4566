package main

import (
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/trials/bench/bufferload"
)

func newBenchBufferCommand(env environment) *cobra.Command {
	cfg := bufferload.DefaultConfig()
	var format string
	var trial serviceTrial
	cmd := &cobra.Command{
		Use:   "buffer",
		Short: "Load Redis alone as the games of many engines do: processor time per turn, and how many turns a core carries",
		Long: `Start Redis, alone and as a Cluster, and write to it what the games of many engines write, through the service's own stores: answers and
phases of journals, results, commits, claims, step records, the account's comparisons, what workers, the fleet's keeper and a server
write and read besides. Nothing else is started: no engines, no Temporal, no workers. A few games are played and told again and again.

What Redis used is read from its own account of processor time, and so holds on a machine that does other work, too, and whatever the
load itself costs. From it follows at how many turns per second a core of Redis is full, alone and as a node of a Cluster.

It needs redis-server on the PATH. With --redis it loads a Redis that runs, under keys millrace-bench-buffer:* that it deletes at the
end; while commands are noted it sets that Redis' slowlog.`,
		Example: `  millrace-lab bench buffer
  millrace-lab bench buffer --masters 1,3,6 --log everysec --engines 64
  millrace-lab bench buffer --redis redis+cluster://10.0.0.1:6379,10.0.0.2:6379 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(format); err != nil {
				return err
			}
			cfg.Say = env.say
			if f := cmd.Flags(); !f.Changed("rate") {
				cfg.Rate = cfg.RateOfEngines()
			}
			if err := cfg.Validate(); err != nil {
				return usage("%v", err)
			}
			if cfg.URL == "" {
				var err error
				if cfg.Redis, err = exec.LookPath("redis-server"); err != nil {
					return usage("redis-server is not on the PATH: install it, or name a Redis that runs with --redis URL")
				}
			}
			dir, remove, err := trial.dir()
			if err != nil {
				return err
			}
			defer remove()
			cfg.Dir = dir
			res, err := bufferload.Measure(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			return env.writeFound(format, res)
		},
	}
	f := cmd.Flags()
	f.IntSliceVar(&cfg.Masters, "masters", cfg.Masters, "nodes that share the keys, each measured: 1 is no Cluster")
	f.StringSliceVar(&cfg.Logs, "log", cfg.Logs, "how Redis logs what is written: off, everysec, always")
	f.StringVar(&cfg.URL, "redis", "", "URL of a Redis that runs, instead of starting any")
	f.IntVar(&cfg.Engines, "engines", cfg.Engines, "engines whose games write")
	f.IntVar(&cfg.InFlight, "in-flight", cfg.InFlight, "requests that an engine has in flight")
	f.DurationVar(&cfg.Call, "call", cfg.Call, "how long a request takes at such an engine")
	f.Float64Var(&cfg.Rate, "rate", cfg.Rate, "turns per second that are written; else as many as the engines make")
	f.IntVar(&cfg.Phases, "phases", cfg.Phases, "phases of a game")
	f.DurationVar(&cfg.Phase, "phase", cfg.Phase, "how long a phase takes: longer ones need more games for the same rate")
	f.IntVar(&cfg.Samples, "samples", cfg.Samples, "games of a group")
	f.IntVar(&cfg.Groups, "groups", cfg.Groups, "groups of a step")
	f.IntVar(&cfg.Runs, "runs", cfg.Runs, "runs among which the games are divided")
	f.IntVar(&cfg.Workers, "workers", cfg.Workers, "worker processes that the load acts as")
	f.DurationVar(&cfg.For, "for", cfg.For, "how long each kind of Redis is measured")
	f.StringVar(&trial.keep, "keep", "", "write logs and databases here and leave them")
	f.StringVarP(&format, "output", "o", "table", "table or json")
	return cmd
}
