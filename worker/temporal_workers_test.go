package worker

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	sdkworker "go.temporal.io/sdk/worker"
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
		w, err := startWhenThere(t.Context(), build, slog.New(slog.DiscardHandler))
		if err != nil || w != built[1] {
			t.Errorf("%v after %d tries, want the second worker", err, tries)
		}
	})
}
