package main

import (
	"encoding/json"
	"fmt"

	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/simulate/sim/calibration"
)

// calibrationReport writes where each parameter is from and how well the simulated run meets the record.
func (e environment) calibrationReport(name string, c *calibration.Calibration) error {
	t := table.New(table.Left("parameter"), table.Left("value"), table.Left("from"), table.Left("how"))
	for _, p := range c.Parameters {
		t.Row(p.Name, p.Value, string(p.From), p.How)
	}
	fmt.Fprintf(e.stdout, "%s, calibrated from one run\n\n", name)
	if err := t.Write(e.stdout, 0); err != nil {
		return err
	}
	f := c.Fit
	fmt.Fprintf(e.stdout, `
The simulated run meets its record within %.1f %% per step (median); a steady step takes %.2f s
recorded, %.2f s simulated; a request %.4f s and %.4f s; engines were busy %.0f %% and %.0f %%
of the time. %d runs were simulated.

`, 100*f.MedianError, f.MeanStep.Recorded, f.MeanStep.Simulated, f.RequestSec.Recorded, f.RequestSec.Simulated,
		100*f.BusyShare.Recorded, 100*f.BusyShare.Simulated, f.Simulations)
	for _, w := range c.Warnings {
		fmt.Fprintf(e.stdout, "note: %s\n", w)
	}
	return nil
}

// predictionReport writes the table for people and the line for programs.
func (e environment) predictionReport(rows []predictionRow) error {
	if len(rows) == 0 {
		return usage("--only names no example; there are seed-004 and latency-bound")
	}
	t := table.New(table.Left("run"), table.Right("live s"), table.Right("simulated s"), table.Right("error"),
		table.Right("steady steps"), table.Right("starved from"), table.Right("simulated"), table.Right("turns/s"),
		table.Left("verdict"))
	onset := func(step rollout.Step) string {
		if step < 0 {
			return "never"
		}
		return fmt.Sprint(step)
	}
	failed := false
	for _, r := range rows {
		verdict := "holds"
		if r.Fault != "" {
			verdict, failed = r.Fault, true
		}
		t.Row(r.Example+" "+r.Name, fmt.Sprintf("%.2f", r.Live), fmt.Sprintf("%.2f", r.Simulated),
			fmt.Sprintf("%+.1f %%", 100*r.Error), fmt.Sprintf("%d-%d", r.Window.From, r.Window.To-1), onset(r.LiveOnset),
			onset(r.SimulatedOnset), fmt.Sprintf("%.0f", r.TurnsPerSec), verdict)
	}
	if err := t.Write(e.stdout, 0); err != nil {
		return err
	}
	line, err := json.Marshal(map[string]any{"predictions": rows})
	if err != nil {
		return err
	}
	fmt.Fprintf(e.stdout, "%s\n", line)
	if failed {
		return errPredictions
	}
	return nil
}
