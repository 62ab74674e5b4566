package buffer_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/store/redistest"
)

// The node of a Cluster that has the index of the runs goes back alone: to before a run was opened, ended, deleted, and
// opened again under its name. Each is listed as what it is once the runs that go on have looked.
func TestIndexOfRunsGoesBackAlone(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		open := func(name rollout.RunName) {
			s := spec(1, 9)
			s.Name = name
			f.ok(f.Open(f.ctx, s))
		}
		index := []string{"millrace:runs", "{millrace:runs}:ended", "{millrace:runs}:active", "{millrace:runs}:listed",
			"{millrace:runs}:winding", "{millrace:runs}:ends", "millrace:deleting", "millrace:lives"}
		image := func() redistest.Image {
			image := redistest.ImageOf(t, rdb)
			for key := range image {
				kept := false
				for _, of := range index {
					kept = kept || key == of
				}
				if !kept {
					delete(image, key)
				}
			}
			return image
		}
		open("deleted")
		open("again")
		open("ends")
		_, err := f.Active(f.ctx)
		f.ok(err)
		before := image()

		open("new")
		f.ended("ends", start)
		f.ok(f.Delete(f.ctx, "deleted"))
		f.ok(f.Delete(f.ctx, "again"))
		again, err := f.ID(f.ctx, "again")
		f.ok(err)
		open(again)
		f.ok(rdb.Del(f.ctx, index...).Err())
		before.Put(t, rdb)

		goOn := []rollout.RunName{run, "new", again}
		for _, run := range append(goOn, "ends", "deleted") { // the last two have workflows that do not know it yet
			f.ok(f.KeepListed(f.ctx, run))
		}
		active, err := f.Active(f.ctx)
		f.ok(err)
		var names []rollout.RunName
		for _, status := range active {
			names = append(names, status.Spec.Name)
		}
		expect(t, "runs that go on", names, []rollout.RunName{again, run, "new"})
		winding, err := f.Winding(f.ctx)
		f.ok(err)
		expect(t, "runs that are over", winding, []rollout.RunName{"ends"})
		deleting, err := f.Deleting(f.ctx)
		f.ok(err)
		expect(t, "deleted runs", deleting, []rollout.RunName{"again", "deleted"})
		id, err := f.ID(f.ctx, "again")
		f.ok(err)
		expect(t, "whose name it is", id, again)
		f.ok(f.SaveStatus(f.ctx, runstatus.RunStatus{Spec: spec(1, 9), State: runstatus.RunCompleted}, 0))
		f.ok(f.KeepListed(f.ctx, run))
		active, err = f.Active(f.ctx)
		f.ok(err)
		expect(t, "runs that go on, but for one that has ended", len(active), 2)
	})
}
