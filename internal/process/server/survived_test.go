package server

import (
	"log/slog"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis/diagnosisinput"
	"github.com/millrace/millrace/internal/kit/panics"
)

// The watch for verdicts goes on with the other runs, and does not come back to the same steps of one that breaks it.
func TestAVerdictThatPanicsIsLeftOut(t *testing.T) {
	t.Parallel()
	broken := 0
	// A reader of no store panics when it is asked.
	w := newVerdictWatch(nil, diagnosisinput.Reader{}, func() bool { return true },
		panics.Watch{Log: slog.New(slog.DiscardHandler), Count: func(string) { broken++ }}, nil)
	for range 2 {
		if !w.keepUp(t.Context(), "demo", 3) {
			t.Fatal("the watch ended")
		}
	}
	if broken != 1 {
		t.Errorf("%d counted", broken)
	}
	if w.keepUp(t.Context(), "demo", 4); broken != 2 {
		t.Errorf("%d counted after another step", broken)
	}
}
