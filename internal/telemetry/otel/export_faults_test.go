package otel

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestACollectorThatIsDown is said in a line every ten minutes, and not with every export.
func TestACollectorThatIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		faults := &exportFaults{log: slog.New(slog.NewTextHandler(&log, nil))}
		for range 3600 / 5 {
			faults.Handle(errors.New("connection refused"))
			time.Sleep(5 * time.Second)
		}
		if n := strings.Count(log.String(), "connection refused"); n != 6 {
			t.Errorf("%d lines in an hour:\n%s", n, log.String())
		}
	})
}
