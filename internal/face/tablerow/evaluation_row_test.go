package tablerow

import (
	"testing"

	"github.com/millrace/millrace/internal/control/evaluation"
	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/rollout"
)

func TestEvaluationRows(t *testing.T) {
	t.Parallel()
	before := rollout.PolicyVersion(8)
	for _, tt := range []struct {
		difference stat.Interval
		verdict    string
	}{
		{stat.Interval{Mean: 0.2, Half: 0.1}, "better than v8"},
		{stat.Interval{Mean: -0.2, Half: 0.1}, "worse than v8"},
		{stat.Interval{Mean: 0.2, Half: 0.3}, "not told from v8"},
	} {
		row := RowOfEvaluation(evaluation.Result{Version: 12, Games: 64, Asked: 128, Score: &stat.Interval{Mean: 0.875,
			Half: 0.05}, Before: &before, Difference: &tt.difference})
		if row.Verdict != tt.verdict || row.Games != "64 of 128" || row.Score != "0.875 ± 0.050" {
			t.Errorf("%+v, want %q", row, tt.verdict)
		}
	}
	if row := RowOfEvaluation(evaluation.Result{Asked: 8}); row.Score != "-" || row.Verdict != "" {
		t.Errorf("%+v of an evaluation that has just begun", row)
	}
}
