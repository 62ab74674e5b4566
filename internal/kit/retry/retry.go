// Package retry repeats a call at a fixed pace until it succeeds, and tells a log of a service that does not answer.
// Callers whose waits grow have their own. Start reading at Until.
package retry

import (
	"context"
	"time"
)

// Until calls try until it succeeds, with a pause after each failure. When ctx is done first it returns what went
// wrong before: that time is up says nothing.
func Until(ctx context.Context, pause time.Duration, try func(context.Context) error) error {
	var trouble error
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if trouble == nil || ctx.Err() == nil {
			trouble = err
		}
		if Pause(ctx, pause) != nil {
			return trouble
		}
	}
}

// Within is Until with an end: patience bounds all tries together.
func Within(ctx context.Context, patience, pause time.Duration, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return Until(ctx, pause, try)
}

// Pause waits for d. It returns early, with the error of ctx, when that is done; at once if it was before.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return ctx.Err() // both may have come
	}
}
