package server

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/store/redisserver"
)

// redisWatch knows which settings of Redis lose what was written to it: they may change while it runs.
type redisWatch struct{ warnings atomic.Pointer[[]string] }

const redisWatchEvery = 30 * time.Second

// watch looks until ctx is done. While Redis does not answer, what was found last is told.
func (w *redisWatch) watch(ctx context.Context, rdb redis.UniversalClient) {
	for {
		if found, ok := look(ctx, rdb); ok {
			w.warnings.Store(&found)
		}
		if retry.Pause(ctx, redisWatchEvery) != nil {
			return
		}
	}
}

func look(ctx context.Context, rdb redis.UniversalClient) (warnings []string, ok bool) {
	if rdb.Ping(ctx).Err() != nil {
		return nil, false
	}
	found, err := redisserver.Check(ctx, rdb)
	if err != nil {
		warnings = append(warnings, err.Error())
	}
	for _, f := range found {
		if f.Level >= slog.LevelWarn {
			warnings = append(warnings, f.Text)
		}
	}
	return warnings, true
}

// now is what was found last.
func (w *redisWatch) now() []string {
	if found := w.warnings.Load(); found != nil {
		return *found
	}
	return nil
}
