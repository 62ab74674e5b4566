package main

import (
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/simulate/enginebench"
)

func newBenchEnginesCommand(env environment) *cobra.Command {
	cfg := enginebench.DefaultConfig()
	var seconds float64
	var format string
	cmd := &cobra.Command{
		Use:  "bench",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "table" && format != "json" {
				return usage("-o %s: use table or json", format)
			}
			cfg.Window = time.Duration(seconds * float64(time.Second))
			cfg.Say = env.Say
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
			if format == "table" {
				return res.WriteText(env.Stdout)
			}
			for _, warning := range res.Warnings() {
				env.Say("%s", warning)
			}
			out := json.NewEncoder(env.Stdout)
			out.SetIndent("", "  ")
			return out.Encode(res)
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
