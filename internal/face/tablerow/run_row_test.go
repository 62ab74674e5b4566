package tablerow

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// TestALongReasonFitsItsCell: a table is read by its rows.
func TestALongReasonFitsItsCell(t *testing.T) {
	t.Parallel()
	for length, want := range map[int]int{0: 0, 120: 120, 121: 123, 700: 123} {
		row := RowOfRun(&Run{RunView: api.RunView{RunStatus: runstatus.RunStatus{Reason: strings.Repeat("é", length)}}})
		if got := len([]rune(row.Note)); got != want {
			t.Errorf("a reason of %d letters takes %d, want %d", length, got, want)
		}
	}
}
