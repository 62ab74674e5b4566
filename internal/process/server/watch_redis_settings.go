package server

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/kit/retry"
)

// redisWatch knows which settings of Redis lose what was written to it: they may change while it runs.
type redisWatch struct{ warnings atomic.Pointer[[]string] }

const redisWatchEvery = 20 * time.Second

// watch looks until ctx is done. While Redis does not answer, what was found last is told.
func (w *redisWatch) watch(ctx context.Context, look func(context.Context) (warnings []string, err error)) {
	for {
		if found, err := look(ctx); err == nil {
			w.warnings.Store(&found)
		}
		if retry.Pause(ctx, redisWatchEvery) != nil {
			return
		}
	}
}

// now is what was found last.
func (w *redisWatch) now() []string {
	if found := w.warnings.Load(); found != nil {
		return *found
	}
	return nil
}
