package main

import (
	"encoding/json"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/simulate/enginebench"
)

func newBenchCommand(env environment) *cobra.Command {
	parent := &cobra.Command{
		Use:   "bench",
		Short: "Measure what reaches the games of the engines' capacity, or an engine by itself",
	}
	parent.AddCommand(newBenchEnginesCommand(env))
	return parent
}

func newBenchEnginesCommand(env environment) *cobra.Command {
	cfg := enginebench.DefaultConfig()
	var seconds float64
	var format string
	var calibrated engineCalibration
	cmd := &cobra.Command{
		Use:   "engines",
		Short: "Play games on 1, 2, 4, ... engines and compare with a closed loop; or calibrate an engine",
		Long: `Play the reference games on fleets of growing size, with the service's own dispatcher and engine client, and measure what the engines do.
Then send the very same requests again in a closed loop, which is what the engines can do. Nothing else needs to run.

Without --engine the engines are simulated, in this process. They take processor time that real ones would not: unless --concurrency is
given, it is chosen so that this machine can serve the largest count.

With --calibrate URL one engine is measured instead: how long a step takes by the number of sequences, the length of prompts and
contexts, and with an adapter. The fit is shown beside the measurements and written as a hardware profile, which simulations
load. The engine should have nothing else to do; it takes a minute or two. MILLRACE_ENGINE_API_KEY is its key, if it asks for one.`,
		Example: `  millrace bench engines --counts 1,2,4,8
  millrace bench engines --counts 1,2 --engine http://10.0.0.5:8000 --engine http://10.0.0.6:8000 --model my-adapter-v1
  millrace bench engines --calibrate http://10.0.0.5:8000 --gpu a100-80gb --adapter my-adapter-v1 -f my-a100.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := calibrated.mode(cmd); err != nil {
				return err
			}
			if calibrated.url != "" {
				return calibrated.run(cmd.Context(), env, cfg.Model)
			}
			if err := benchFormat(format); err != nil {
				return err
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
			if format == "json" {
				for _, warning := range res.Warnings() {
					env.Say("%s", warning)
				}
			}
			return env.writeBench(format, res)
		},
	}
	calibrated.add(cmd)
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

// measured is what a benchmark found: as JSON it is itself.
type measured interface {
	WriteText(w io.Writer) error
}

// writeBench writes what a benchmark found as -o says.
func (e environment) writeBench(format string, found measured) error {
	if format == "json" {
		out := json.NewEncoder(e.Stdout)
		out.SetIndent("", "  ")
		return out.Encode(found)
	}
	return found.WriteText(e.Stdout)
}

func benchFormat(format string) error {
	if format != "table" && format != "json" {
		return usage("-o %s: use table or json", format)
	}
	return nil
}
