package buffer_test

import (
	"fmt"
	"strings"
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
				runs, next, err := f.RunsPage(f.ctx, after, limit, everyRun)
				f.ok(err)
				for _, run := range runs {
					all = append(all, run.Spec.Name)
				}
				after = next
			}
			expect(t, fmt.Sprint("runs in pages of ", limit), fmt.Sprint(all), "[demo run5 run4 run3 run2 run1 run0]")
		}
		_, next, err := f.RunsPage(f.ctx, "", 3, everyRun)
		f.ok(err)
		f.ok(f.Delete(f.ctx, next))
		_, _, err = f.RunsPage(f.ctx, next, 3, everyRun)
		f.refused(err, rollout.Invalid)
	})
}

func everyRun(rollout.RunName) bool { return true }

// TestPagesHaveNoTraceOfRunsThatMayNotBeSeen: neither in a page's end nor by what may be asked for after it.
func TestPagesHaveNoTraceOfRunsThatMayNotBeSeen(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("opens and ends 600 runs, one after another")
	}
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		end := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
		for i := range 600 { // beyond what is read at a time
			f.ended(rollout.RunName(fmt.Sprint("others", i)), end.Add(time.Duration(i)*time.Second))
		}
		for i := range 3 {
			f.ended(rollout.RunName(fmt.Sprint("mine", i)), end.Add(time.Duration(i)*250*time.Second))
		}
		mine := func(name rollout.RunName) bool { return strings.HasPrefix(string(name), "mine") }
		var all []rollout.RunName
		for after, pages := rollout.RunName(""), 0; pages == 0 || after != ""; pages++ {
			runs, next, err := f.RunsPage(f.ctx, after, 1, mine)
			f.ok(err)
			for _, run := range runs {
				all = append(all, run.Spec.Name)
			}
			after = next
		}
		expect(t, "my runs", fmt.Sprint(all), "[mine2 mine1 mine0]")
		_, _, there := f.RunsPage(f.ctx, "others7", 1, mine)
		f.refused(there, rollout.Invalid)
		_, _, nowhere := f.RunsPage(f.ctx, "others7777", 1, mine)
		f.refused(nowhere, rollout.Invalid)
		expect(t, "a run that is not seen", there.Error(), strings.Replace(nowhere.Error(), "7777", "7", 1))
	})
}
