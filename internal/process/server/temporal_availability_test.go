package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A server asks Temporal every few seconds. It says that it does not answer, and at last for how long it did not.
func TestTemporalWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		var w temporalWatch
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		w.watch(ctx, func(context.Context) error {
			if at := time.Since(begun); at >= time.Minute && at < 2*time.Minute {
				return errors.New("refused")
			}
			return nil
		}, slog.New(slog.NewTextHandler(&said, nil)))
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		if len(lines) != 4 || !strings.Contains(lines[0], "Temporal does not answer") ||
			!strings.Contains(lines[3], `"Temporal answers again" unavailable_for=1m0s`) {
			t.Errorf("said\n%s", said.String())
		}
		if !w.answers.Load() {
			t.Error("the probes are told that it does not answer")
		}
	})
}
