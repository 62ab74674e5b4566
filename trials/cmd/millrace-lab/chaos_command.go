package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/trials/crashtest"
	"github.com/millrace/millrace/trials/stack"
)

// newChaosCommand is what `make chaos` calls.
func newChaosCommand(env environment) *cobra.Command {
	var cfg crashtest.Config
	var seconds int
	var trial serviceTrial
	var only []string
	cmd := &cobra.Command{
		Use:   "chaos",
		Short: "Run the service under kills, stops, cuts and a full Redis, and check that nothing was lost",
		Long: `Start the whole service as real processes, play runs with the demo trainer, and break its parts by a seeded schedule: kill -9,
SIGSTOP, cut and hanging connections, a full and a slow Redis. Then compare what the trainer was fed, what claims give, what
engines answered and the buffer's account. Ends with one line of JSON, and exit code 1 if any promise was broken.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Duration = time.Duration(seconds) * time.Second
			if cfg.Duration <= 0 {
				return usage("--seconds %d: must be positive", seconds)
			}
			if !slices.Contains(crashtest.Decks(), cfg.Deck) {
				return usage("--schedule %s: want one of %v", cfg.Deck, crashtest.Decks())
			}
			if !slices.Contains(crashtest.Layouts(), cfg.Layout) {
				return usage("--redis %s: want one of %v", cfg.Layout, crashtest.Layouts())
			}
			if !slices.Contains(append(crashtest.Shapes(), ""), cfg.Run.Shape) {
				return usage("--shape %s: want one of %v", cfg.Run.Shape, crashtest.Shapes())
			}
			all := cfg.Kinds()
			for _, kind := range only {
				if !slices.Contains(all, crashtest.Kind(kind)) {
					return usage("--only %s: want some of %v, where Redis is %s", kind, all, cfg.Layout)
				}
				cfg.Only = append(cfg.Only, crashtest.Kind(kind))
			}
			if cfg.Seed == 0 {
				cfg.Seed = time.Now().UnixNano() % 1_000_000
			}
			if cfg.Duration >= longRun && cfg.Deck == crashtest.Processes {
				cfg.TemporalOutage = longAbsence
			}
			cfg.Log = env.stderr
			return trial.in(func(programs stack.Programs, dir string) error {
				cfg.Programs, cfg.Dir = programs, dir
				env.say("chaos for %s, seed %d, in %s", cfg.Duration, cfg.Seed, dir)
				report, err := crashtest.Run(cmd.Context(), cfg)
				if err != nil {
					return err
				}
				return env.chaosReport(report)
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&seconds, "seconds", 600, "how long a schedule of faults to play; on a busy machine it takes longer")
	f.Int64Var(&cfg.Seed, "seed", 0, "of the schedule; 0 draws one")
	f.DurationVar(&cfg.Every, "every", crashtest.DefaultEvery, "one fault in each such time")
	f.StringVar((*string)(&cfg.Deck), "schedule", string(crashtest.Processes),
		"what is broken: processes, names, or scaling of the fleet")
	f.StringVar((*string)(&cfg.Layout), "redis", string(crashtest.Single),
		"which nodes Redis is made of: single, sentinel (a master and a replica) or cluster (three masters with a "+
			"replica each)")
	f.StringVar((*string)(&cfg.Run.Shape), "shape", "", "of all runs, such as external or openenv; empty: one after the "+
		"other")
	f.StringSliceVar(&only, "only", nil, "only these kinds of faults, with commas between, such as stale-redis")
	f.IntVar(&cfg.Patience, "patience", 1, "times the stated bounds, on a machine that does other work meanwhile")
	trial.add(f)
	return cmd
}

// A run of five minutes or more has an absence of Temporal of more than two among its faults.
const (
	longRun     = 5 * time.Minute
	longAbsence = 125 * time.Second
)

// chaosReport writes the tables for people and the line for programs.
func (e environment) chaosReport(r crashtest.Report) error {
	t := table.New(table.Left("fault"), table.Right("samples"), table.Right("p50 s"), table.Right("p99 s"),
		table.Right("max s"),
		table.Right("unseen"), table.Left("until"))
	seconds := func(s float64) string { return fmt.Sprintf("%.2f", s) }
	for _, rv := range r.Recovery {
		t.Row(string(rv.Kind), fmt.Sprint(len(rv.Seconds)), seconds(rv.P(0.5)), seconds(rv.P(0.99)), seconds(rv.P(1)),
			fmt.Sprint(rv.Open), rv.What)
	}
	if err := t.Write(e.stderr, 0); err != nil {
		return err
	}
	e.say("%d batches claimed again whole and %d in shares, %d records sent again, %d calls of replaced "+
		"trainers refused, "+
		"%d batches granted and %d turns played while Temporal was unavailable",
		r.Claims, r.Shares, r.Records, r.Refused, r.Ahead, r.Unled)
	if r.Calls > 0 {
		e.say("%d calls of programs were answered, %d of them generated again", r.Calls, r.Summary.Again)
	}
	e.say("%d steps trained again because a trainer went back to its checkpoint, "+
		"%d turns compared with the engines' answers, %d of %d generated tokens repeated, groups dropped: %v",
		r.Rewound, r.Turns, r.Summary.RepeatedTokens, r.OutTokens, r.Dropped)
	if s := r.Summary; s.Rollbacks > 0 || s.Repairs > 0 {
		e.say("%d times Redis came back older: %d times the run repaired its account and said so, %d times nothing was "+
			"lost that a trainer had been told; %d repairs of accounts in all, %d batches lost, and refused", s.Rollbacks,
			s.RollbacksDetected, s.RollbacksHarmless, s.Repairs, r.Lost)
	}
	for _, v := range r.Violations {
		e.say("VIOLATION %s", v)
	}
	if err := json.NewEncoder(e.stdout).Encode(r.Summary); err != nil {
		return err
	}
	if n := len(r.Violations); n > 0 {
		return fmt.Errorf("%d promises broken", n)
	}
	return nil
}
