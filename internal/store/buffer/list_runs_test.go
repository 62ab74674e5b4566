package buffer_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
)

// TestPagesOfRuns has each run once, whatever the size of a page: those that go on, then the latest that ended.
func TestPagesOfRuns(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		end := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
		for i := range 6 {
			f.ended(rollout.RunName(fmt.Sprint("run", i)), end.Add(time.Duration(i/2)*time.Hour)) // two at a time
		}
		for _, limit := range []int{1, 2, 3, 7, 100} {
			var all []rollout.RunName
			pages := 0
			for after := rollout.RunName(""); pages == 0 || after != ""; pages++ {
				runs, next, err := f.RunsPage(f.ctx, after, limit)
				f.ok(err)
				for _, run := range runs {
					all = append(all, run.Spec.Name)
				}
				after = next
			}
			expect(t, fmt.Sprint("runs in pages of ", limit), fmt.Sprint(all), "[demo run5 run4 run3 run2 run1 run0]")
		}
		_, next, err := f.RunsPage(f.ctx, "", 3)
		f.ok(err)
		f.ok(f.Delete(f.ctx, next))
		_, _, err = f.RunsPage(f.ctx, next, 3)
		f.refused(err, rollout.Invalid)
	})
}
