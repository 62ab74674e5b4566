package worker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdkworker "go.temporal.io/sdk/worker"

	"github.com/millrace/millrace/internal/kit/retry"
)

// memorial is a worker like the SDK's: whether it could start is decided once.
type memorial struct {
	sdkworker.Worker
	err error
}

func (m *memorial) Start() error { return m.err }

// Temporal was there, and is gone again when the worker starts: it starts when Temporal is back.
func TestWorkerStartsWhenTemporalIsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		built := []*memorial{{err: errors.New("failed reaching server")}, {}}
		tries := 0
		build := func() sdkworker.Worker {
			w := built[min(tries, len(built)-1)]
			tries++
			return w
		}
		start := temporalStart{&retry.Outage{Log: slog.New(slog.DiscardHandler)}}
		w, err := start.worker(t.Context(), build)
		if err != nil || w != built[1] {
			t.Errorf("%v after %d tries, want the second worker", err, tries)
		}
	})
}

// A worker asks for Temporal every second, and says so less and less often; then, how long it waited.
func TestAWorkerThatWaitsForTemporalSaysSoAFewTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		log := slog.New(slog.NewTextHandler(&said, nil))
		start := temporalStart{&retry.Outage{Log: log, Down: "no answer", Up: "answers"}}
		begun := time.Now()
		err := start.await(t.Context(), func(context.Context) error {
			if time.Since(begun) < 5*time.Minute {
				return errors.New("refused")
			}
			return nil
		})
		if n := strings.Count(said.String(), "no answer"); err != nil || n != 5 {
			t.Errorf("%v after %d lines in 5 minutes, want 5", err, n)
		}
		if !strings.Contains(said.String(), "msg=answers unavailable_for=5m0s") {
			t.Errorf("says nothing of the end:\n%s", said.String())
		}
	})
}
