package tablerow

import (
	"cmp"
	"fmt"

	"github.com/millrace/millrace/internal/control/evaluation"
	"github.com/millrace/millrace/internal/kit/stat"
)

// EvaluationRow is the cells of what an evaluation tells.
type EvaluationRow struct {
	Version, Against, Games, Score string
	Difference, Verdict            string // beside the version before
	State, Run                     string
	Better, Worse                  bool // told from the version before
}

// RowOfEvaluation makes the cells of an evaluation.
func RowOfEvaluation(r evaluation.Result) EvaluationRow {
	row := EvaluationRow{Version: fmt.Sprint(r.Version), Against: cmp.Or(r.Against, "-"),
		Games: fmt.Sprintf("%d of %d", r.Games, r.Asked), Score: "-",
		Difference: "-", State: string(r.State), Run: string(r.Run)}
	if r.Seat != "" {
		row.Against += ", as " + r.Seat
	}
	if r.Score != nil {
		row.Score = Reward(*r.Score)
	}
	if d := r.Difference; d != nil {
		row.Difference = Reward(*d)
		row.Better, row.Worse = d.Excludes(0) && d.Mean > 0, d.Excludes(0) && d.Mean < 0
		said := "not told from"
		if row.Better {
			said = "better than"
		} else if row.Worse {
			said = "worse than"
		}
		row.Verdict = fmt.Sprintf("%s v%d", said, *r.Before)
	}
	return row
}

// Reward is a mean and half its interval, with two digits of the error.
func Reward(i stat.Interval) string {
	if i.Half <= 0 {
		return fmt.Sprintf("%.3f", i.Mean)
	}
	return Fine(i.Mean, i.Half/10) + " ± " + Fine(i.Half, i.Half/10)
}
