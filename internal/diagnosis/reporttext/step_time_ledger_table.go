package reporttext

import (
	"fmt"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/kit/units"

	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// lossesShown bounds the losses of the table; the rest is one row.
const lossesShown = 6

// leastShown is the share of the time below which losses are not worth the table.
const leastShown = 0.005

// ledger writes where the time of the steps went: useful compute, then the losses, the largest first.
func (p *page) ledger(l *diagnosis.Ledger) {
	if l == nil || l.LostShare < leastShown {
		return
	}
	t := table.New(table.Left(fmt.Sprintf("time of %d steps (measured)", l.Steps)), table.Right("seconds"),
		table.Right("share"), table.Right("steps"), table.Right("on average"))
	t.Row("useful compute (goodput)", units.Seconds(l.UsefulSec), units.Percent(l.Goodput()), fmt.Sprint(l.Steps),
		units.Seconds(l.UsefulSec/float64(max(l.Steps, 1))))
	rest, restSteps := 0.0, 0
	for i, loss := range l.Losses {
		if i >= lossesShown || loss.Share < 0.0005 {
			rest, restSteps = rest+loss.Sec, restSteps+loss.Steps
			continue
		}
		t.Row("  lost: "+lossName(loss), units.Seconds(loss.Sec), units.Percent(loss.Share), fmt.Sprint(loss.Steps),
			units.Seconds(loss.PerStepSec()))
	}
	if rest > 0 {
		t.Row("  lost: other", units.Seconds(rest), units.Percent(rest/l.WallSec), fmt.Sprint(restSteps), "")
	}
	t.Row("wall time", units.Seconds(l.WallSec), "100 %", fmt.Sprint(l.Steps),
		units.Seconds(l.WallSec/float64(max(l.Steps, 1))))
	p.line("")
	p.table(t)
}

// lossName is a loss in a few words.
func lossName(l diagnosis.Loss) string {
	name := l.Cause.Words()
	switch {
	case l.Name != "":
		name = l.Name
	case l.Phase == steprecord.PhaseWait && l.Cause != diagnosis.CauseSingleStep:
		name = "waiting, " + name
	case l.Cause == diagnosis.CauseSingleStep && l.Steps == 1:
		name = fmt.Sprintf("step %d, %s", l.Worst, diagnosis.PhaseText(l.Phase))
	case l.Cause == diagnosis.CauseTrainer, l.Cause == diagnosis.CausePeriodicPhase, l.Cause == diagnosis.CauseRarePhase,
		l.Cause == diagnosis.CauseSingleStep, l.Cause == diagnosis.CausePaused:
		name += ", " + string(l.Phase)
	}
	if l.Every > 1 {
		name += fmt.Sprintf(", every %d steps", l.Every)
	}
	return name
}
