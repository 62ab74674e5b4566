package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/trials/bench/enginebench"
)

func newBenchEnginesCommand(env environment) *cobra.Command {
	cfg := enginebench.DefaultConfig()
	var seconds float64
	var format string
	cmd := &cobra.Command{
		Use:   "engines",
		Short: "Play games on 1, 2, 4, ... engines and compare with a closed loop: what reaches the games of their capacity",
		Long: `Play the reference games on fleets of growing size, with the service's own dispatcher and engine client, and measure what the
engines do. Then send the very same requests again in a closed loop, which is what the engines can do. Nothing else needs to run.

Without --engine the engines are simulated, in this process. They take processor time that real ones would not: unless --concurrency is
given, it is chosen so that this machine can serve the largest count.`,
		Example: `  millrace-lab bench engines --counts 1,2,4,8
  millrace-lab bench engines --counts 1,2 --engine http://10.0.0.5:8000 --engine http://10.0.0.6:8000 --model my-adapter-v1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkFormat(format); err != nil {
				return err
			}
			cfg.Window = time.Duration(seconds * float64(time.Second))
			cfg.Say = env.say
			if len(cfg.URLs) > 0 && !cmd.Flags().Changed("counts") {
				cfg.Counts = enginebench.UpTo(len(cfg.URLs))
			}
			if err := cfg.Validate(); err != nil {
				return usage("%v", err)
			}
			res, err := enginebench.Engines(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			if format == "json" {
				for _, warning := range res.Warnings() {
					env.say("%s", warning)
				}
			}
			return env.writeFound(format, res)
		},
	}
	f := cmd.Flags()
	f.IntSliceVar(&cfg.Counts, "counts", cfg.Counts, "numbers of engines; the first is what scaling is compared with")
	f.StringArrayVar(&cfg.URLs, "engine", nil, "URL of a real engine; may be repeated")
	f.StringVar(&cfg.Model, "model", "", "model or adapter to ask real engines for (default: the first that they list)")
	f.Float64Var(&cfg.Speed, "speed", cfg.Speed, "divide the times of simulated engines, and of the trainer, by this")
	f.Float64Var(&seconds, "seconds", cfg.Window.Seconds(), "how long to measure, per count and pass")
	f.IntVar(&cfg.Concurrency, "concurrency", 0, "requests in flight per engine (default: what this machine can serve; "+
		"128 for real engines)")
	f.StringVar((*string)(&cfg.Rules.Policy), "policy", string(runspec.LeastTokens),
		"dispatch.policy of a run spec: least_tokens or round_robin")
	f.StringVar((*string)(&cfg.Rules.Queue), "queue", string(runspec.SharedQueue),
		"dispatch.queue of a run spec: shared or per_engine")
	f.IntVar(&cfg.Rules.GroupPerEngine, "group-per-engine", 0, "dispatch.group_per_engine of a run spec")
	f.IntVar(&cfg.Rules.AffinitySlack, "affinity-slack", 0, "dispatch.affinity_slack of a run spec")
	f.DurationVar(&cfg.TrainStep, "train", cfg.TrainStep, "what the modelled trainer takes for a step")
	f.IntVar(&cfg.GroupsPerStep, "groups-per-step", cfg.GroupsPerStep, "groups that a step takes")
	f.IntVar(&cfg.Samples, "samples", cfg.Samples, "games of a group")
	f.IntVar(&cfg.Years, "years", cfg.Years, "years of a game")
	f.StringVarP(&format, "output", "o", "table", "table or json")
	return cmd
}
