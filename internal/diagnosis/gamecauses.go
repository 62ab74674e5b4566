package diagnosis

import (
	"fmt"

	"github.com/millrace/millrace/internal/units"
)

func (q *inquiry) longerGames(_ *Report, e effect) (Cause, bool) {
	before, after := q.ledger.mean(e.before, batchWork(work)), q.ledger.mean(e.after, batchWork(work))
	if before == 0 || after == 0 {
		return Cause{}, false
	}
	text := fmt.Sprintf("a batch's work is %s request-seconds, was %s", units.Number(after), units.Number(before))
	if q.regime.P == nil || after < before*(1+moved) {
		return Cause{CauseLongerGames, Excluded, text, Measured}, true
	}
	return Cause{CauseLongerGames, e.weigh(q.butFor(q.regime.P.Sec * before / after)), text, Measured}, true
}

func (q *inquiry) drops(_ *Report, e effect) (Cause, bool) {
	rate := q.ledger.dropRate(e.after)
	text := fmt.Sprintf("%.2f groups dropped for each one trained on%s", rate, q.lossText())
	if q.regime.P == nil {
		return Cause{CauseDrops, Undecided, text, Measured}, rate > 0
	}
	return Cause{CauseDrops, e.weigh(q.butFor(q.regime.P.Sec / (1 + rate))), text, Measured}, true
}

func (q *inquiry) straggler(_ *Report, e effect) (Cause, bool) {
	if !q.hasGroups() {
		return Cause{CauseStraggler, Undecided, "the groups' times are not known", Measured}, true
	}
	late := q.ledger.mean(e.after, (*step).lateTail)
	return Cause{CauseStraggler, e.weigh(late),
		fmt.Sprintf("the last group came %s later than an even spacing would have it", units.Seconds(late)), Measured}, true
}

// environment weighs the games' own time on the way of the groups that completed the batches.
func (q *inquiry) environment(_ *Report, e effect) (Cause, bool) {
	sec := 0.0
	for _, part := range q.ledger.waitParts(e.after) {
		if part.Place == PlaceEnv {
			sec = part.Sec
		}
	}
	return Cause{CauseEnvironment, e.weigh(sec), fmt.Sprintf("%s of the wait was spent inside the game", units.Seconds(sec)), Measured}, true
}
