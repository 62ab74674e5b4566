package retry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Within repeats at its pace, and names the last trouble that came before the time was up.
func TestWithin(t *testing.T) {
	t.Parallel()
	trouble := errors.New("refused")
	for _, tt := range []struct {
		name  string
		needs int // tries until it succeeds
		want  error
		took  time.Duration
	}{
		{"at once", 1, nil, 0},
		{"at the third try", 3, nil, 2 * time.Second},
		{"too late", 99, trouble, 5500 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, tries := time.Now(), 0
				err := Within(t.Context(), 5500*time.Millisecond, time.Second, func(ctx context.Context) error {
					if tries++; tries >= tt.needs {
						return nil
					}
					return errors.Join(ctx.Err(), trouble)
				})
				if !errors.Is(err, tt.want) || errors.Is(err, context.DeadlineExceeded) || time.Since(began) != tt.took {
					t.Errorf("%v after %v, want %v after %v", err, time.Since(began), tt.want, tt.took)
				}
			})
		})
	}
}

// A pause of no time is none when the time is up.
func TestPauseAfterTheEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		if err := Pause(ctx, 0); !errors.Is(err, context.Canceled) {
			t.Fatalf("%v, want %v", err, context.Canceled)
		}
	}
}
