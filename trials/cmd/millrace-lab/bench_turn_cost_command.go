package main

import (
	"github.com/alicebob/miniredis/v2"
	"github.com/spf13/cobra"

	"github.com/millrace/millrace/trials/bench/turncost"
	"github.com/millrace/millrace/trials/stack"
)

func newBenchTurnCommand(env environment) *cobra.Command {
	cfg := turncost.DefaultConfig()
	var format string
	trial := &serviceTrial{noRedis: true}
	cmd := &cobra.Command{
		Use:   "turn",
		Short: "Play games on engines that answer at once: processor time per turn, by process and by part",
		Long: `Start the whole service as real processes on loopback ports (Redis, the Temporal dev server, a server and a worker), play games on
engines that answer at once, and say what a turn and a game have cost: processor time of each process, by the kernel's account,
and of the worker by what it was spent on, by its CPU profile. Games are Diplomacy in which no centre changes hands, so that every
phase has seven turns and games of any length can be compared.

It needs Linux and the Temporal CLI. Without redis-server on the PATH an embedded Redis takes its place, which is not measured.
Other work of the machine makes it last longer; processor time changes little. For a comparison, measure both versions in turns.`,
		Example: `  millrace-lab bench turn
  millrace-lab bench turn --phases 10,50,200 --turns 20000 -o json
  millrace-lab bench turn --after 1s --phases 30
  millrace-lab bench turn --phases 200 --turns 84000 --heartbeat 1m
  millrace-lab bench turn --waiting 2000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Say = env.say
			return trial.bench(env, format, cfg.Validate, func(programs stack.Programs, dir string) (measured, error) {
				cfg.Programs, cfg.Dir = programs, dir
				if cfg.Redis == "" {
					embedded := miniredis.NewMiniRedis()
					if err := embedded.Start(); err != nil {
						return nil, err
					}
					defer embedded.Close()
					cfg.EmbeddedRedis = embedded.Addr()
				}
				return turncost.Measure(cmd.Context(), cfg)
			})
		},
	}
	f := cmd.Flags()
	f.IntSliceVar(&cfg.Phases, "phases", cfg.Phases, "lengths of games, measured one after the other")
	f.IntVar(&cfg.Turns, "turns", cfg.Turns, "turns that are played of each length, at least")
	f.IntVar(&cfg.Samples, "samples", cfg.Samples, "games of a group")
	f.IntVar(&cfg.Games, "games", cfg.Games, "games that the worker plays at a time")
	f.DurationVar(&cfg.After, "after", cfg.After, "how long engines take for an answer")
	f.DurationVar(&cfg.Heartbeat, "heartbeat", cfg.Heartbeat,
		"timeouts.heartbeat of the runs: what it costs Temporal to hear of games that last")
	f.IntVar(&cfg.Waiting, "waiting", 0, "measure, besides, what so many claims cost that wait for a batch")
	f.BoolVar(&cfg.OnDisk, "disk", false, "have Redis log every write (appendfsync always) and Temporal write to disk, "+
		"instead of keeping all in memory")
	trial.add(f)
	f.StringVarP(&format, "output", "o", "table", "table or json")
	return cmd
}
