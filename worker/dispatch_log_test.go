package worker

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/millrace/millrace/internal/engine/dispatch/dispatchlog/logreplay"
)

// decidesTheSame: the events of a live run, through the scheduler again in virtual time, bring the very same decisions.
// It holds for every worker that tests run in their own process, through failures of engines and deaths of runs.
func (d *deployment) decidesTheSame(log string) {
	file, err := os.Open(log)
	if err != nil {
		d.t.Error(err)
		return
	}
	defer file.Close()
	r, err := logreplay.Run(file)
	if err != nil || r.Difference != nil {
		d.t.Errorf("%v; the first difference is %+v", err, r.Difference)
	}
	if r.Events == 0 {
		d.t.Error("the dispatcher was told nothing")
	}
	d.t.Logf("%d events and %d commands in %v, decided again: the same", r.Events, r.Commands, r.Span)
}

// TestDispatchLogsAreNotWrittenOver: a worker that is started again leaves what the one before it logged.
func TestDispatchLogsAreNotWrittenOver(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "dispatch.log")
	for _, want := range []string{name, name + ".2", name + ".3"} {
		l, err := openDispatchLog(name, slog.New(slog.DiscardHandler))
		if err != nil || l.name != want {
			t.Fatalf("%v; it logs to %s, want %s", err, l.name, want)
		}
		l.close()
	}
	if l, err := openDispatchLog("", nil); err != nil || l.writer != nil {
		t.Errorf("nothing was asked for: %+v, %v", l, err)
	}
	if _, err := openDispatchLog(filepath.Join(name, "below"), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a file that cannot be made is no error")
	}
}
