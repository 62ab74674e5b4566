package reporttext

import (
	"fmt"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/kit/units"
)

// oldShiftsShown bounds what is written of older steps, the newest; the document has all that is kept.
const oldShiftsShown = 4

// older writes what is kept of the steps that are no longer looked at one by one.
func (p *page) older(r diagnosis.Report) {
	shifts := r.OldShifts[max(0, len(r.OldShifts)-oldShiftsShown):]
	for _, s := range shifts {
		p.wrapped("", fmt.Sprintf("Earlier, at step %d (%s), steps went from %s to %s, most of it %s (measured).", s.At,
			s.Time.UTC().Format("2006-01-02 15:04"), units.Seconds(s.BeforeSec), units.Seconds(s.AfterSec),
			diagnosis.PhaseText(s.First)))
	}
	if n := len(r.OldShifts) - len(shifts); n > 0 {
		p.line("%d earlier changes of level: -o json", n)
	}
}
