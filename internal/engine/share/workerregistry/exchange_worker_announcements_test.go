package workerregistry_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/engine/share"
	"github.com/millrace/millrace/internal/engine/share/workerregistry"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// TestExchange: workers hear of each other as long as announcements hold, by Redis's clock whatever their own say. One
// that is not heard of any more is gone.
func TestExchange(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	rdb, setClock := clockedRedis(t)
	now := time.Unix(1000, 0)
	setClock(now)
	ahead := workerregistry.New(rdb, "test", func() time.Time { return now.Add(time.Hour) })
	behind := workerregistry.New(rdb, "test", func() time.Time { return now.Add(-time.Hour) })
	said := share.Member{
		Demand: []enginestate.RunDemand{{Run: "r", Model: "m", Groups: []enginestate.GroupDemand{{Seq: 7, Requests: 3}}}},
		Held:   map[rollout.EngineID]int{"e": 5}, Runs: map[rollout.RunName]int{"r": 2},
		InFlight: map[rollout.EngineID]int{"e": 4},
	}
	exchange := func(r *workerregistry.Registry, worker string, continued bool, want ...share.Member) {
		t.Helper()
		own := said
		own.Worker = worker
		got, was, err := r.Exchange(ctx, own, time.Second, 8*time.Second)
		if err != nil || was != continued || len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Errorf("%s hears %+v, continued %t, %v; want %+v, %t", worker, got, was, err, want, continued)
		}
	}
	told := func(worker string) share.Member {
		return share.Member{Worker: worker, Demand: said.Demand, Held: said.Held, Runs: said.Runs,
			InFlight: said.InFlight}
	}
	exchange(ahead, "a", false)
	exchange(behind, "worker", false, told("a"))
	exchange(ahead, "a", true, told("worker"))
	now = now.Add(2 * time.Second)
	setClock(now)
	// The other one has died: it is gone for those who divide, and there for people until 8 s are over.
	exchange(behind, "a", false)
	if got, err := ahead.Alive(ctx); err != nil || !reflect.DeepEqual(got, []string{"a", "worker"}) {
		t.Errorf("alive %v, %v", got, err)
	}
	exchange(behind, "worker", false, told("a"))
	if err := behind.Leave(ctx, "worker"); err != nil {
		t.Fatal(err)
	}
	exchange(ahead, "a", true)
	now = now.Add(2 * time.Minute)
	setClock(now)
	exchange(ahead, "a", false)
	exchange(ahead, "b", false, told("a"))
	if n, err := rdb.HLen(ctx, "test:{fleet}:workers:shares").Result(); n != 2 || err != nil {
		t.Errorf("%d announcements are kept, %v; want those of a and b", n, err)
	}
}
