package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/diagnosis/reporttext"
	"github.com/millrace/millrace/internal/rollout"
)

func newDiagnoseCommand(d Deps) *cobra.Command {
	s := &session{Deps: d}
	var code bool
	cmd := s.onRun("diagnose RUN", "Say why a run's steps take as long as they do, and what would help", exactly(1),
		func(ctx context.Context, c Client, run rollout.RunName, _ []string) error {
			report, a, err := c.diagnosis(ctx, run)
			if err != nil {
				return err
			}
			if err := s.show(a.Body, func() error { return reporttext.Write(s.Stdout, report) }); err != nil {
				return err
			}
			if code && report.Problem() {
				return errProblem
			}
			return nil
		})
	cmd.Long = `Say why a run's steps take as long as they do: since when, which phase grew, where the games were while the
trainer waited, what limits the run (compute, the engines' capacity or the games' latency), and what would and would not help.

Numbers are labelled: measured ones are read from the records, modelled ones come from a replay with one thing changed, or
from a simulation of the run where that meets the record well. With too little evidence it says what is missing instead of guessing.

` + ExitCodesHelp
	cmd.Flags().BoolVar(&code, "exit-code", false, "exit with 6 when something slows the run down now")
	s.flags(cmd)
	return cmd
}

// Diagnose writes the diagnosis of a run.
func (c Client) Diagnose(ctx context.Context, run rollout.RunName, w io.Writer) error {
	report, _, err := c.diagnosis(ctx, run)
	if err != nil {
		return err
	}
	return reporttext.Write(w, report)
}
