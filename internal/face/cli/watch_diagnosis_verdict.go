package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/diagnosis/reporttext"
	"github.com/millrace/millrace/internal/kit/termtext"
	"github.com/millrace/millrace/internal/rollout"
)

// verdictEvery is how often a watched run is diagnosed.
const verdictEvery = 5 * time.Second

// verdictsSaid is what a watch has said of a run.
type verdictsSaid struct {
	last    string // verdict and first cause
	problem bool   // the last one is
	over    bool   // and the run was
}

// watchVerdict prints what a run's diagnosis says first and whenever it says something else, until the run is over.
// With exitCode it then ends as a diagnosis of that moment would.
func (s *session) watchVerdict(ctx context.Context, c Client, run rollout.RunName, exitCode bool) error {
	var said verdictsSaid
	return s.poll(ctx, verdictEvery, s.outage(patience), func(ctx context.Context) (bool, error) {
		err := s.sayVerdict(ctx, c, run, &said)
		if err == nil && said.over && exitCode && said.problem {
			return true, errProblem
		}
		return err == nil && said.over, err
	})
}

// sayVerdict writes the verdict if it is another than was said.
func (s *session) sayVerdict(ctx context.Context, c Client, run rollout.RunName, said *verdictsSaid) error {
	view, _, err := c.run(ctx, run)
	if err != nil {
		return err
	}
	report, a, err := c.diagnosis(ctx, run)
	if err != nil {
		return err
	}
	verdict := string(report.Verdict)
	if len(report.Findings) > 0 {
		verdict += " " + string(report.Findings[0].Cause)
	}
	said.problem, said.over = report.Urgent(), view.State.Over()
	if verdict == said.last {
		return nil
	}
	said.last = verdict
	if s.format == "table" {
		_, err := fmt.Fprintf(s.Stdout, "%s  step %d  %s\n", s.now().Format(time.TimeOnly), report.To,
			termtext.Block(reporttext.Headline(report)))
		return err
	}
	return s.writeLine(a.Body)
}
