package cli

import (
	"fmt"

	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/kit/table"

	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/run/alarm"
)

// showAlarms writes what stops the run's games, and what to do about it.
func (s *session) showAlarms(alarms []runstatus.Alarm) {
	for _, a := range alarms {
		s.paragraph("STUCK  ", a.Text)
		s.paragraph("to do  ", a.Advice)
	}
	if len(alarms) > 0 {
		fmt.Fprintln(s.Stdout)
	}
}

// attemptsText is how many games were finished and how many attempts failed; empty before the first.
func attemptsText(t runstatus.AttemptCounts) string {
	if t.Finished+t.Failed == 0 {
		return ""
	}
	text := fmt.Sprintf("%d games finished, %d attempts failed", t.Finished, t.Failed)
	if worst, failing := t.Worst(); failing {
		text += fmt.Sprintf(", the last %d in a row with %s", worst.InRow, worst.Code)
	}
	return text
}

// showFailures writes the attempts that failed, by code, with the latest of each and what to do.
func (s *session) showFailures(v *tablerow.Run) error {
	if len(v.Attempts.ByCode) == 0 {
		return nil
	}
	fmt.Fprintln(s.Stdout)
	t := table.New(table.Left("FAILED WITH"), table.Right("ATTEMPTS"), table.Right("GIVEN UP"), table.Right("IN A ROW"),
		table.Right("LAST"), table.Left("GAME"), table.Left("LAST ERROR"))
	for _, f := range v.Attempts.ByCode {
		t.Row(string(f.Code), count(f.Attempts), count(f.GivenUp), count(f.InRow),
			tablerow.Ago(f.LastAt, s.now()), f.LastGame,
			f.Last)
	}
	if err := s.write(t); err != nil {
		return err
	}
	for _, f := range v.Attempts.ByCode {
		todo := fmt.Sprintf("see: millrace events %s --code %s", v.Spec.Name, f.Code)
		if advice := alarm.Advice(f.Code, v.Spec); advice != "" {
			todo = advice + "; " + todo
		}
		s.paragraph("to do    ", fmt.Sprintf("%s: %s", f.Code, todo))
	}
	return nil
}
