package buffer

import (
	"testing"

	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// TestMarksOnlyGoOn: what a process knows of an account goes on with it, in whatever order answers come. A later era
// counts for more than any serial of the one before.
func TestMarksOnlyGoOn(t *testing.T) {
	t.Parallel()
	known := newKnownMarks()
	for _, tt := range []struct{ era, serial, knownEra, knownSerial int64 }{
		{1, 5, 1, 5}, {1, 4, 1, 5}, {1, 7, 1, 7}, {2, 3, 2, 3}, {1, 9, 2, 3}, {2, 4, 2, 4},
	} {
		known.note("demo", knownMark{Mark: runstatus.Mark{Era: tt.era, Serial: tt.serial}})
		if at := known.floor("demo"); at[0] != tt.knownEra || at[1] != tt.knownSerial {
			t.Errorf("after era %d, serial %d: known are %v, want %d and %d", tt.era, tt.serial, at, tt.knownEra,
				tt.knownSerial)
		}
	}
}
