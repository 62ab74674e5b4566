package live

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/engineshare"
)

// TestWorkersDivideALimit: dispatchers that share an engine never have more in flight there than its limit while their
// number is steady, and no more than a newcomer's part above it when one joins, for one completion.
func TestWorkersDivideALimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit, takes = 10, 10 * time.Second
		engine := &fake{takes: takes}
		var workers []*rig
		var names []string
		tell := func(r *rig, me string) { r.SetEngines(engineshare.Evenly(r.list(), me, names)) }
		join := func() {
			r := newRig(t, Config{}, limit, engine)
			r.SetEngines(nil)
			names = append(names, fmt.Sprintf("w%d", len(names)))
			workers = append(workers, r)
			tell(r, names[len(names)-1]) // the newcomer knows at once, the others a moment later
			for i := range 100 {
				r.call(t.Context(), turn(fmt.Sprintf("%s-%d", names[len(names)-1], i), i, 0))
			}
		}
		top := func() int {
			engine.mu.Lock()
			defer engine.mu.Unlock()
			n := engine.top
			engine.top = engine.running
			return n
		}
		for n := 1; n <= 4; n++ {
			join()
			synctest.Wait()
			for i, r := range workers {
				tell(r, names[i])
			}
			synctest.Wait()
			if most, part := top(), (limit+n-1)/n; most > limit+part*min(1, n-1) {
				t.Errorf("worker %d joins: %d in flight; want %d and its part, %d", n, most, limit, part)
			}
			time.Sleep(takes + time.Second)
			top()
			time.Sleep(2 * takes)
			if most := top(); most != limit {
				t.Errorf("%d workers: %d in flight; want %d", n, most, limit)
			}
		}
		// One leaves: its part is idle until the others are told.
		workers[0].stop()
		names, workers = slices.Delete(names, 0, 1), slices.Delete(workers, 0, 1)
		synctest.Wait()
		for i, r := range workers {
			tell(r, names[i])
		}
		time.Sleep(takes)
		top()
		time.Sleep(takes)
		if most := top(); most != limit {
			t.Errorf("after one left: %d in flight; want %d", most, limit)
		}
		for _, r := range workers {
			r.stop()
		}
	})
}
