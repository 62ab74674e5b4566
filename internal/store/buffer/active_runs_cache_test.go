package buffer_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/store/buffer"
)

// The parts of a process that follow the runs share one reading of a second; a failed one serves nobody.
func TestActiveRunsAreReadOnceASecond(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		now := start
		s := buffer.New(rdb, buffer.Options{Now: func() time.Time { return now }})
		active := func() int {
			t.Helper()
			runs, err := s.RecentlyActive(f.ctx)
			f.ok(err)
			return len(runs)
		}
		expect(t, "active runs", active(), 1)
		another := spec(1, 3)
		another.Name = "another"
		f.ok(f.Open(f.ctx, another))
		now = now.Add(999 * time.Millisecond)
		expect(t, "within the second", active(), 1)
		now = now.Add(time.Millisecond)
		expect(t, "after a second", active(), 2)
		f.ok(f.Delete(f.ctx, "another"))
		now = now.Add(-time.Hour)
		expect(t, "after the clock was set back", active(), 1)
	})
}
