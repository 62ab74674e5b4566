package buffer_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/store/buffer"
)

func TestRetention(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T, rdb redis.UniversalClient){
		"by age and by number": func(t *testing.T, rdb redis.UniversalClient) {
			f := open(t, rdb, spec(1, 9)) // it goes on all the while
			end := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
			for i := range 6 {
				f.ended(rollout.RunName(fmt.Sprint("run", i)), end.Add(time.Duration(i)*time.Hour))
			}
			never, always := time.Time{}, end.Add(99*time.Hour)
			for _, tt := range []struct {
				name              string
				before            time.Time
				newest            int
				ofThose           time.Time
				limit, wantOldest int
			}{
				{"neither", never, 0, always, 10, 0},
				{"age", end.Add(90 * time.Minute), 0, always, 10, 2},
				{"age, of nobody", end, 0, always, 10, 0},
				{"number", never, 4, always, 10, 2},
				{"number, of nobody", never, 6, always, 10, 0},
				{"both, age takes more", end.Add(4 * time.Hour), 5, always, 10, 4},
				{"both, number takes more", end.Add(time.Minute), 2, always, 10, 4},
				{"number, but not who has just ended", never, 1, end.Add(150 * time.Minute), 10, 3},
				{"in portions", always, 0, always, 3, 3},
				{"by number in portions", never, 1, always, 3, 3},
			} {
				got, err := f.Expired(f.ctx, tt.before, tt.newest, tt.ofThose, tt.limit)
				f.ok(err)
				var want []rollout.RunName
				for i := range tt.wantOldest {
					want = append(want, rollout.RunName(fmt.Sprint("run", i)))
				}
				expect(t, tt.name, fmt.Sprint(got), fmt.Sprint(want))
			}
		},
		"never takes a run that goes on": func(t *testing.T, rdb redis.UniversalClient) {
			f := open(t, rdb, spec(1, 9))
			deleted, err := f.DeleteOver(f.ctx, run)
			f.ok(err)
			expect(t, "deleted", deleted, false)
			f.ended("lost", time.Now())
			f.ok(f.Revive(f.ctx, "lost")) // after it was found expired
			deleted, err = f.DeleteOver(f.ctx, "lost")
			f.ok(err)
			expect(t, "deleted", deleted, false)
			waiting, err := f.Deleting(f.ctx)
			f.ok(err)
			expect(t, "to be purged", len(waiting), 0)
			of := spec(1, 9)
			of.Name = "lost"
			resumed := runstatus.RunStatus{Spec: of, State: runstatus.RunRunning}
			f.ok(f.SaveStatus(f.ctx, resumed, buffer.InItsPlace))
			active, err := f.Active(f.ctx)
			f.ok(err)
			expect(t, "active", len(active), 2)
		},
		"by two at once": func(t *testing.T, rdb redis.UniversalClient) {
			f := open(t, rdb, spec(1, 9))
			f.ended("old", time.Now())
			for range 2 {
				deleted, err := f.DeleteOver(f.ctx, "old")
				f.ok(err)
				expect(t, "deleted", deleted, true)
			}
			id, err := f.ID(f.ctx, "old")
			f.ok(err)
			expect(t, "the next of that name", id, "old@2")
			f.ok(f.Purge(f.ctx, "old"))
			deleted, err := f.DeleteOver(f.ctx, "old")
			f.ok(err)
			expect(t, "deleted again", deleted, true)
			f.ok(f.Purge(f.ctx, "old"))
			id, err = f.ID(f.ctx, "old")
			f.ok(err)
			expect(t, "the next of that name, still", id, "old@2")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, test)
		})
	}
}

// ended is a run that is over.
func (f *fixture) ended(name rollout.RunName, at time.Time) {
	f.t.Helper()
	of := spec(1, 9)
	of.Name = name
	f.ok(f.Open(f.ctx, of))
	f.ok(f.SaveStatus(f.ctx, runstatus.RunStatus{Spec: of, State: runstatus.RunCompleted, EndedAt: at}, 0))
}
