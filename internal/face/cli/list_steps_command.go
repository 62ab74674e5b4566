package cli

import (
	"cmp"
	"context"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

func (s *session) stepsCommand() *cobra.Command {
	var from int64
	cmd := s.onRun("steps RUN", cobra.ExactArgs(1),
		func(ctx context.Context, c Client, run rollout.RunName, _ []string) error {
			if from < 0 {
				return Usage("--from %d: steps are numbered from 0", from)
			}
			steps, err := c.steps(ctx, run, rollout.Step(from))
			if err != nil {
				return err
			}
			switch {
			case len(steps) > 0:
			case from > 0:
				s.Say("no step from %d on was claimed yet", from)
			default:
				s.Say("no step was claimed yet")
			}
			return s.showValue(map[string]any{"steps": steps}, func() error { return s.write(stepsTable(steps)) })
		})
	cmd.Flags().Int64Var(&from, "from", 0, "first step")
	return cmd
}

// Steps writes the table of a run's steps.
func (c Client) Steps(ctx context.Context, run rollout.RunName, w io.Writer) error {
	steps, err := c.steps(ctx, run, 0)
	if err != nil {
		return err
	}
	return stepsTable(steps).Write(w, 0)
}

// WriteSteps writes the table of steps that no server has, such as simulated ones.
func WriteSteps(w io.Writer, steps []steprecord.StepRecord) error {
	return stepsTable(steps).Write(w, 0)
}

func stepsTable(steps []steprecord.StepRecord) *table.Table {
	columns := []table.Column{table.Right("STEP"), table.Right("WALL s"), table.Right("WAIT"), table.Right("LOAD"),
		table.Right("REF"),
		table.Right("TRAIN"), table.Right("PUBL"), table.Right("OTHER"), table.Right("READY"), table.Right("QUEUED"),
		table.Right("FLYING"),
		table.Right("STALE"), table.Right("BUSY"), table.Right("FLEET tok/s IN"), table.Right("OUT")}
	zeroVariance := slices.ContainsFunc(steps, func(
		r steprecord.StepRecord) bool {
		return r.Service.ZeroVarianceGroups > 0
	})
	if zeroVariance {
		columns = append(columns, table.Right("EQUAL"))
	}
	t := table.New(columns...)
	for i := range steps {
		r := tablerow.RowOfStep(&steps[i])
		if r.Prefill != "" {
			t.Row(padded([]string{"prefill", r.Prefill, r.Prefill}, len(columns))...)
		}
		row := []string{r.No, cmp.Or(r.Missing, r.Sec), r.Wait, r.Load, r.Reference, r.Train, r.Publish, r.Other, r.Ready,
			r.Queued, r.InFlight, r.Staleness, r.Slots, r.InputTPS, r.OutputTPS, r.EqualGroups}
		t.Row(row[:len(columns)]...)
	}
	return t
}

// padded is a row with empty cells behind it.
func padded(row []string, cells int) []string {
	return append(row, slices.Repeat([]string{""}, cells-len(row))...)
}
