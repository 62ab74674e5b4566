package pageview

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/face/web/runhistory"

	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// What a trainer tells of its evaluations is drawn by version, each with the interval that it tells, if it tells one.
func TestEvaluations(t *testing.T) {
	t.Parallel()
	in := input(40)
	in.Tab = CurveTab
	for i := range in.History.Steps {
		if i%10 != 0 { // it evaluates seldom
			continue
		}
		r := steprecord.StepRecord{Trainer: steprecord.StepReport{Metrics: map[string]float64{"eval/win_rate": float64(
			i) / 100,
			"eval/win_rate_stderr": 0.01, "val-core/acc": 0.5, "val-core/acc_low": 0.4, "val-core/acc_high": 0.7,
			"Evals_x<b>": 1, "loss": 3, "evaluate": 4, "value_loss": 5}}}
		in.History.Steps[i].Evaluations = runhistory.RowOf(r).Evaluations
	}
	var got []string
	for _, p := range panelsOf(in) {
		if !strings.HasPrefix(p.ID, "evaluation-") {
			continue
		}
		row := p.Table.Rows[2]
		got = append(got, fmt.Sprintf("%s: %d rows, %s %q", p.Title, len(p.Table.Rows), row.What, row.Cells()))
	}
	want := []string{`Evaluation eval/win_rate: 4 rows, version 20 ["0.2" "0.18" "0.22"]`,
		`Evaluation val-core/acc: 4 rows, version 20 ["0.5" "0.4" "0.7"]`}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s\nwant %s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
