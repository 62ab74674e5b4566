package reporttext

import (
	"fmt"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/table"
	"github.com/millrace/millrace/internal/units"
)

const (
	// oldShiftsShown and hoursShown bound what is written of older steps, the newest; the document has all that is kept.
	oldShiftsShown = 4
	hoursShown     = 6
)

// older writes what is kept of the steps that are no longer looked at one by one.
func (p *page) older(r diagnosis.Report) {
	shifts := r.OldShifts[max(0, len(r.OldShifts)-oldShiftsShown):]
	for _, s := range shifts {
		p.wrapped("", fmt.Sprintf("Earlier, at step %d (%s), steps went from %s to %s, most of it %s (measured).", s.At,
			s.Time.UTC().Format("2006-01-02 15:04"), units.Seconds(s.BeforeSec), units.Seconds(s.AfterSec),
			diagnosis.PhaseText(s.First)))
	}
	if n := len(r.OldShifts) - len(shifts); n > 0 {
		p.line("%s before these: -o json", count(n, "change of level", "changes of level"))
	}
	if len(r.Hours) == 0 {
		return
	}
	shown := r.Hours[max(0, len(r.Hours)-hoursShown):]
	t := table.New(table.Left("older steps, by hour (measured)"), table.Right("from step"), table.Right("steps"),
		table.Right("mean step"), table.Right("waiting"), table.Right("goodput"))
	for _, h := range shown {
		start := h.Start.UTC().Format("2006-01-02 15:04")
		if h.Hours > 1 {
			start += fmt.Sprintf(", %d hours", h.Hours)
		}
		t.Row(start, fmt.Sprint(h.FirstStep), fmt.Sprint(h.Steps), units.Seconds(h.WallSec/float64(max(h.Steps, 1))),
			units.Percent(h.WaitSec/max(h.WallSec, 1e-9)), units.Percent(h.UsefulSec/max(h.WallSec, 1e-9)))
	}
	p.line("")
	p.table(t)
	if n := len(r.Hours) - len(shown); n > 0 {
		p.line("%s before these: -o json", count(n, "hour", "hours"))
	}
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
