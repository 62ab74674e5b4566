package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/crashtest"
)

// newChaosCommand is what `make chaos` calls. It is of use to who works on Millrace, so the help does not list it.
func newChaosCommand(env environment) *cobra.Command {
	var cfg crashtest.Config
	var seconds int
	var keep string
	cmd := &cobra.Command{
		Use:    "chaos",
		Hidden: true,
		Short:  "Run the service under kills, stops, cuts and a full Redis, and check that nothing was lost",
		Long: `Start the whole service as real processes, play runs with the demo trainer, and break its parts by a seeded schedule: kill -9,
SIGSTOP, cut and hanging connections, a full and a slow Redis. Then compare what the trainer was fed, what claims give, what
engines answered and the buffer's account. Ends with one line of JSON, and exit code 1 if any promise was broken.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Duration = time.Duration(seconds) * time.Second
			if cfg.Duration <= 0 {
				return usage("--seconds %d: must be positive", seconds)
			}
			if cfg.Seed == 0 {
				cfg.Seed = time.Now().UnixNano() % 1_000_000
			}
			cfg.Log = env.stderr
			if err := findChaosBinaries(&cfg); err != nil {
				return err
			}
			dir, remove, err := chaosDir(keep)
			if err != nil {
				return err
			}
			defer remove()
			cfg.Dir = dir
			env.say("chaos for %s, seed %d, in %s", cfg.Duration, cfg.Seed, dir)
			report, err := crashtest.Run(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			return env.chaosReport(report)
		},
	}
	f := cmd.Flags()
	f.IntVar(&seconds, "seconds", 600, "how long to inject faults")
	f.Int64Var(&cfg.Seed, "seed", 0, "of the schedule; 0 draws one")
	f.DurationVar(&cfg.Every, "every", crashtest.DefaultEvery, "one fault in each such time")
	f.StringVar(&cfg.Temporal, "temporal-bin", "", "temporal CLI (default $MILLRACE_TEMPORAL, then the PATH, then .bin/temporal)")
	f.StringVar(&keep, "keep", "", "write logs, databases and journals here and leave them")
	return cmd
}

func findChaosBinaries(cfg *crashtest.Config) error {
	var err error
	if cfg.Millrace, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if cfg.Temporal, err = temporalBinary(cfg.Temporal); err != nil {
		return err
	}
	if cfg.Redis, err = exec.LookPath("redis-server"); err != nil {
		return fmt.Errorf("chaos needs a real Redis that can be killed: put redis-server on the PATH (Debian: apt-get install redis-server): %w", err)
	}
	return nil
}

func chaosDir(keep string) (dir string, remove func(), err error) {
	if keep != "" {
		dir, err = filepath.Abs(keep)
		return dir, func() {}, err
	}
	dir, err = os.MkdirTemp("", "millrace-chaos-")
	if err != nil {
		return "", nil, fmt.Errorf("make a folder: %w", err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil // a temporary folder
}

// chaosReport writes the tables for people and the line for programs.
func (e environment) chaosReport(r crashtest.Report) error {
	t := tabwriter.NewWriter(e.stderr, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "killed\tsamples\tp50 s\tp99 s\tmax s\tunseen\t  until")
	for _, rv := range r.Recovery {
		fmt.Fprintf(t, "%s\t%d\t%.2f\t%.2f\t%.2f\t%d\t  %s\n", rv.Kind, len(rv.Seconds), rv.P(0.5), rv.P(0.99), rv.P(1), rv.Open, rv.What)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	e.say("%d claims repeated and equal or reported, %d turns compared with the engines' answers, %d of %d generated tokens repeated, groups dropped: %v",
		r.Claims, r.Turns, r.Summary.RepeatedTokens, r.OutTokens, r.Dropped)
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
