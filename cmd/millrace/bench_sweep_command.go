package main

import (
	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/bench"
	"github.com/millrace/millrace/internal/rollout"
)

func newBenchSweepCommand(env environment) *cobra.Command {
	cfg := bench.DefaultSweepConfig()
	var orders []string
	for _, o := range cfg.Orders {
		orders = append(orders, string(o))
	}
	var format string
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Compare flush windows, batch sizes and orders on any engine, and say which differences are noise",
		Long: `Send the same requests with every combination of flush window, maximum batch and order, through the service's own dispatcher and engine
client. Settings take turns in a random order each round, so that a machine that grows slower favours none of them. The table shows each
request's p50 and p95, the makespan and tokens per second with 95 % confidence; below it stands what each setting does by itself, and
whether that is more than noise.

Without --engine the engines are simulated, in this process. They batch by themselves, as vLLM does: batching before them only costs time.`,
		Example: `  millrace bench sweep --speed 10
  millrace bench sweep --engine http://10.0.0.5:8000 --model my-adapter-v1 --max-batch 0,4,8 --requests 32 --output-tokens 16,64,256`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := benchFormat(format); err != nil {
				return err
			}
			cfg.Say = env.say
			cfg.Orders = nil
			for _, o := range orders {
				cfg.Orders = append(cfg.Orders, rollout.DispatchOrder(o))
			}
			if err := cfg.Validate(); err != nil {
				return usage("%v", err)
			}
			res, err := bench.Sweep(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			return env.writeBench(format, res)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&cfg.URLs, "engine", nil, "URL of a real engine; may be repeated (default: simulated ones)")
	f.StringVar(&cfg.Model, "model", "", "model or adapter to ask real engines for (default: the first that they list)")
	f.IntVar(&cfg.Engines, "engines", cfg.Engines, "simulated engines")
	f.Float64Var(&cfg.Speed, "speed", cfg.Speed, "divide the times of simulated engines, and windows and gaps, by this; "+
		"the table multiplies them back")
	f.DurationSliceVar(&cfg.Windows, "windows", cfg.Windows, "flush windows: how long an incomplete batch may wait")
	f.IntSliceVar(&cfg.MaxBatches, "max-batch", cfg.MaxBatches, "requests in one call at most; 0: each is a call of its "+
		"own, and all are sent at once")
	f.StringSliceVar(&orders, "orders", orders, "orders of service: arrival, shortest_first")
	f.IntVar(&cfg.Requests, "requests", cfg.Requests, "requests of a trial")
	f.IntSliceVar(&cfg.OutputTokens, "output-tokens", cfg.OutputTokens, "output tokens of an answer, in turn")
	f.BoolVar(&cfg.FreeLength, "free-length", false, "let the model end its answers before they have all their tokens")
	f.IntVar(&cfg.PromptWords, "prompt-words", cfg.PromptWords, "length of a prompt, about")
	f.DurationVar(&cfg.Gap, "gap", cfg.Gap, "mean time between requests; 0: all come at once")
	f.IntVar(&cfg.Trials, "trials", cfg.Trials, "trials of every setting")
	f.IntVar(&cfg.Warmup, "warmup", cfg.Warmup, "rounds before that are not counted")
	f.Uint64Var(&cfg.Seed, "seed", cfg.Seed, "of the order of settings, and of the gaps")
	f.DurationVar(&cfg.Timeout, "timeout", cfg.Timeout, "of one request")
	f.StringVarP(&format, "output", "o", "table", "table or json")
	return cmd
}
