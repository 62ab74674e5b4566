package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/trials/noisyneighbours"
	"github.com/millrace/millrace/trials/stack"
)

// newIsolationCommand is what `make isolation` calls.
func newIsolationCommand(env environment) *cobra.Command {
	cfg := noisyneighbours.Config{Log: env.stderr}
	seconds := int(noisyneighbours.DefaultWindow.Seconds())
	var trial serviceTrial
	cmd := &cobra.Command{
		Use:   "isolation",
		Short: "Measure what a healthy run feels of other runs, callers and engines that misbehave",
		Long: fmt.Sprintf(`Start the whole service as real processes, train a healthy run, and disturb it in one way after
another. A row for each: time per step beside the disturbance and without it, claims of granted batches, and the most
memory that the server and a worker took. Bounds: a step takes at most %.1f times as long, claims p99 below %v, no group
of the run is dropped, processes stay below %d MB. Ends with one line of JSON, and exit code 1 if a bound was broken.

Disturbances:

%s`, noisyneighbours.MaxRatio, noisyneighbours.MaxClaim, noisyneighbours.MaxMemory>>20, disturbanceList()),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if seconds <= 0 {
				return usage("--seconds %d: must be positive", seconds)
			}
			cfg.Window = time.Duration(seconds) * time.Second
			return trial.in(func(programs stack.Programs, dir string) error {
				cfg.Programs, cfg.Dir = programs, dir
				report, err := noisyneighbours.Run(cmd.Context(), cfg)
				return errors.Join(err, env.isolationReport(report))
			})
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&cfg.Only, "only", nil, "names of disturbances, separated by commas; all, if not given")
	f.IntVar(&seconds, "seconds", seconds, "how long each disturbance lasts at least")
	f.BoolVar(&cfg.Confirm, "confirm", true, "measure a row that breaks a bound once more, on a fresh service")
	trial.add(f)
	return cmd
}

func disturbanceList() string {
	var b strings.Builder
	names, what := noisyneighbours.Names()
	for i := range names {
		fmt.Fprintf(&b, "  %-13s %s\n", names[i], what[i])
	}
	return strings.TrimRight(b.String(), "\n")
}

// isolationReport writes the table for people and the line for programs.
func (e environment) isolationReport(r noisyneighbours.Report) error {
	t := table.New(table.Left("beside"), table.Right("alone s"), table.Right("step s"), table.Right("max s"),
		table.Right("ratio"), table.Right("claim p50 s"), table.Right("p99 s"), table.Right("new group s"),
		table.Right("dropped"),
		table.Right("server MB"), table.Right("worker MB"), table.Left("bounds"), table.Left("answered"))
	seconds := func(s float64) string { return fmt.Sprintf("%.2f", s) }
	for _, row := range r.Rows {
		kept, group := "kept", seconds(row.NewGroup)
		if len(row.Broken) > 0 {
			kept = strings.Join(row.Broken, ", ")
		}
		if row.NewGroup < 0 {
			group = "never"
		}
		t.Row(row.Name, seconds(row.Undisturbed), seconds(row.Step), seconds(row.StepMax), seconds(row.Ratio),
			seconds(row.ClaimP50), seconds(row.ClaimP99), group, fmt.Sprint(row.Dropped), fmt.Sprint(row.ServerBytes>>20),
			fmt.Sprint(row.WorkerBytes>>20), kept, row.Note)
	}
	if err := t.Write(e.stderr, 0); err != nil {
		return err
	}
	if err := json.NewEncoder(e.stdout).Encode(r); err != nil {
		return err
	}
	if r.Broken > 0 {
		return fmt.Errorf("%d of %d disturbances are felt beyond the bounds", r.Broken, len(r.Rows))
	}
	return nil
}
