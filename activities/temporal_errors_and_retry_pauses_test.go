package activities

import (
	"errors"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/millrace/millrace/internal/rollout"
)

// Attempts that fail rest longer each time, and 20 of them last for minutes: as long as a Redis may be unavailable.
func TestPausesAfterFailedAttempts(t *testing.T) {
	t.Parallel()
	for attempts, want := range map[int]time.Duration{
		0: 500 * time.Millisecond, 1: 500 * time.Millisecond, 2: time.Second, 3: 2 * time.Second, 6: 16 * time.Second,
		7: 30 * time.Second, 1000: 30 * time.Second,
	} {
		if got := pauseAfter(attempts); got != want {
			t.Errorf("after %d attempts: %v, want %v", attempts, got, want)
		}
	}
	var app *temporal.ApplicationError
	err := typedAfter(rollout.Fail(rollout.Retryable, "engine_gone", errors.New("refused")), pauseAfter(4))
	if !errors.As(err, &app) || app.NextRetryDelay() != 4*time.Second || app.NonRetryable() {
		t.Errorf("%v is tried again after %v", err, app.NextRetryDelay())
	}
}
