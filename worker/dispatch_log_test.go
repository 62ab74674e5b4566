package worker

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/millrace/millrace/internal/dispatch/dispatchlog"
)

// TestDispatchLogReplaysIdentically: a real run's events, through the scheduler again in virtual time, bring the very
// same decisions.
func TestDispatchLogReplaysIdentically(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	d.cfg.Worker.DispatchLog = filepath.Join(d.dir, "dispatch.log")
	ctx, stop := context.WithCancel(d.ctx)
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, d.cfg, slog.New(slog.DiscardHandler)) }()
	const steps = 4
	d.train(steps)
	d.completed(steps)
	stop()
	<-ended
	file, err := os.Open(d.cfg.Worker.DispatchLog)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := dispatchlog.Run(file)
	if err != nil || r.Difference != nil {
		t.Fatalf("%v; the first difference is %+v", err, r.Difference)
	}
	// A game of tic-tac-toe has at least three turns of the learner.
	if least := int64(steps * 3 * 3 * 3); r.Requests < least || r.Commands < least || r.Full {
		t.Errorf("%d requests and %d commands, want at least %d: %+v", r.Requests, r.Commands, least, r)
	}
	t.Logf("%d events and %d commands in %v, identical", r.Events, r.Commands, r.Span)
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
