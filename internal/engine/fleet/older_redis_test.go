package fleet_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	embedserver "github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/store/redistest"
)

// forgettingRedis is an embedded Redis that can be put back to what it was. It has another replication id then, as a
// real one has after a restart.
type forgettingRedis struct {
	redis.UniversalClient
	life  atomic.Int64 // read by the server's connections
	saved redistest.Image
}

func newForgettingRedis(t *testing.T) *forgettingRedis {
	t.Helper()
	server := miniredis.NewMiniRedis()
	f := &forgettingRedis{UniversalClient: clientOf(t, server)}
	if err := f.Ping(t.Context()).Err(); err != nil { // it is there from its first connection on
		t.Fatal(err)
	}
	server.Server().SetPreHook(func(c *embedserver.Peer, cmd string, _ ...string) bool {
		if cmd == "INFO" {
			c.WriteBulk(fmt.Sprintf("# Replication\r\nmaster_replid:%040x\r\n", f.life.Load()+1))
		}
		return cmd == "INFO"
	})
	f.save(t)
	return f
}

func (f *forgettingRedis) save(t *testing.T) {
	t.Helper()
	f.saved = redistest.ImageOf(t, f)
}

func (f *forgettingRedis) goBack(t *testing.T) {
	t.Helper()
	f.life.Add(1)
	f.saved.Restore(t, f)
}

// Redis goes back to before engines were asked to load what they serve, with the wish for it or without: they serve it
// again, having loaded it once more. Who had somebody else's weights before still has, and so does who joins later.
func TestEnginesServeAgainWhenRedisHasGoneBack(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		lost func(*forgettingRedis) error
	}{
		{"records alone", func(f *forgettingRedis) error {
			return f.Del(context.Background(), "test:{fleet}:held:a", "test:{fleet}:held:b").Err()
		}},
		{"records and the wish", func(*forgettingRedis) error { return nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rdb := newForgettingRedis(t)
				r := newRigOn(t, rdb, "a", "b", "c")
				mine := adapter(1)
				mine.Digest = "sha256:01"
				before := adapter(2) // what makes the third engine somebody else's
				before.Digest = "sha256:02"
				c := r.engines["http://c:8000"]
				c.set(func(e *fakeEngine) { e.adapters[before.Name] = before.Path })
				r.want(before)
				r.within(10*time.Second, "b", "serving", serving(before.Name))
				time.Sleep(2 * time.Second)
				rdb.save(t)
				r.want(mine)
				for _, id := range []rollout.EngineID{"a", "b", "c"} {
					r.within(10*time.Second, id, "serving", serving(mine.Name))
				}
				if tt.name == "records alone" {
					rdb.save(t)
				}
				rdb.goBack(t)
				if err := tt.lost(rdb); err != nil {
					t.Fatal(err)
				}
				time.Sleep(3 * time.Second)
				r.want(mine) // by its run, which has noticed
				for _, id := range []rollout.EngineID{"a", "b", "c"} {
					r.within(10*time.Second, id, "serving again", serving(mine.Name))
				}
				time.Sleep(time.Minute)
				r.within(0, "c", "ready without what is not ours", func(e enginestate.Engine) bool {
					return e.State == enginestate.EngineReady && !slices.Contains(e.Adapters, before.Name)
				})
				if tt.name != "records alone" {
					return
				}
				time.Sleep(10 * time.Minute)
				late := r.add("late")
				late.set(func(e *fakeEngine) { e.adapters[mine.Name] = mine.Path })
				r.within(10*time.Second, "late", "ready without what is not ours", func(e enginestate.Engine) bool {
					return e.State == enginestate.EngineReady && !slices.Contains(e.Adapters, mine.Name) &&
						strings.Contains(e.Reason, "not by this deployment")
				})
			})
		})
	}
}

// On a real Redis that is killed and comes back with its last snapshot: what an engine lists without a record is to be
// loaded again, once; what it lists later without one is not ours. So it is with an engine that Redis has forgotten.
func TestLoadRecordsAreComparedWhenRedisIsRestarted(t *testing.T) {
	t.Parallel()
	dir, at := t.TempDir(), redistest.Port(t)
	addr, stop := redistest.Start(t, dir, at, "--appendonly", "no")
	defer func() { stop() }()
	rdb, ctx := redistest.Client(t, addr, 0), t.Context()
	r := fleet.NewRegistry(rdb, "test", time.Now)
	join := func(id rollout.EngineID) {
		t.Helper()
		if _, err := r.Add(ctx, enginestate.Engine{ID: id, URL: "http://" + string(id) + ":8000"}); err != nil {
			t.Fatal(err)
		}
	}
	kept, lost, theirs := adapter(1), adapter(2), adapter(3)
	load := func(id rollout.EngineID, a fleet.Adapter) {
		t.Helper()
		if err := r.RecordLoad(ctx, id, a); err != nil {
			t.Fatal(err)
		}
	}
	// records is what is known of an engine that lists adapters: + as ours, ? as to be loaded again.
	records := func(r *fleet.Registry, id rollout.EngineID, listed ...fleet.Adapter) string {
		t.Helper()
		roots := map[string]string{}
		for _, a := range listed {
			roots[a.Name] = a.Path
		}
		known, err := r.ComparedLoads(ctx, id, roots)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, name := range slices.Sorted(maps.Keys(known)) {
			out = append(out, name+map[bool]string{true: "?", false: "+"}[known[name].Reload])
		}
		return strings.Join(out, " ")
	}
	expect := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	join("a")
	load("a", kept)
	expect("of a new engine", records(r, "a", kept, theirs), "demo-v1+")
	if err := rdb.Save(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	load("a", lost)
	join("b")
	load("b", lost)
	expect("before", records(r, "a", kept, lost), "demo-v1+ demo-v2+")

	stop()
	_, stop = redistest.Start(t, dir, at, "--appendonly", "no")
	join("b")
	for _, r := range []*fleet.Registry{r, fleet.NewRegistry(rdb, "test", time.Now)} { // the second knew nothing
		expect("of an engine whose record is lost", records(r, "a", kept, lost), "demo-v1+ demo-v2?")
		expect("of an engine that is lost", records(r, "b", lost), "demo-v2?")
		expect("of what appears later", records(r, "a", kept, lost, theirs), "demo-v1+ demo-v2?")
	}
	load("a", lost)
	expect("when it is loaded again", records(r, "a", kept, lost, theirs), "demo-v1+ demo-v2+")
}

// What operators did to the fleet since Redis was saved is done again: an engine that they added is back, one that they
// removed goes. Those of a list are the list's affair, and a restart that has lost nothing changes nothing.
func TestOperatorsEnginesOutlastAnOlderRedis(t *testing.T) {
	t.Parallel()
	rdb, ctx := newForgettingRedis(t), t.Context()
	r := fleet.NewRegistry(rdb, "test", time.Now)
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	engine := func(id rollout.EngineID) enginestate.Engine {
		return enginestate.Engine{ID: id, URL: "http://" + string(id) + ":8000", MaxInFlight: 7}
	}
	add := func(id rollout.EngineID) {
		t.Helper()
		_, err := r.Add(ctx, engine(id))
		ok(err)
	}
	members := func() string {
		t.Helper()
		all, err := r.Members(ctx)
		ok(err)
		var out []string
		for _, m := range all {
			out = append(out, string(m.ID)+map[bool]string{true: " leaves"}[m.Leave])
		}
		return strings.Join(out, ", ")
	}
	expect := func(what, want string) {
		t.Helper()
		if got := members(); got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	guard := fleet.NewRedisLossGuard(rdb, "test", "own", r, slog.New(slog.DiscardHandler))
	add("kept")
	add("removed")
	ok(guard.Look(ctx))
	rdb.save(t)
	add("added")
	ok(r.AddListed(ctx, engine("listed"), "a file"))
	ok(r.Remove(ctx, "removed", true))
	ok(guard.Look(ctx))
	ok(rdb.HDel(ctx, "test:{fleet}:members", "removed").Err()) // as the keeper does, when it has drained
	ok(guard.Look(ctx))

	rdb.goBack(t)
	ok(guard.Look(ctx))
	expect("after Redis went back", "added, kept, removed leaves")
	ok(rdb.HDel(ctx, "test:{fleet}:members", "removed").Err())
	rdb.life.Add(1) // an ordinary restart, right after it has left
	ok(guard.Look(ctx))
	expect("after a restart", "added, kept")
	add("removed")
	ok(guard.Look(ctx))
	rdb.life.Add(1)
	ok(guard.Look(ctx))
	expect("added again", "added, kept, removed")
}

// weighedEngine knows which weights it has under a name.
type weighedEngine struct {
	*fakeEngine
	has map[string]string
}

func (e *weighedEngine) LoadAdapter(ctx context.Context, name, path string) error {
	err := e.fakeEngine.LoadAdapter(ctx, name, path)
	if err == nil {
		e.set(func(*fakeEngine) { e.has[name] = "ours" })
	}
	return err
}

// FuzzFleetRollback puts the fleet's Redis back to what it was at any moment, while versions are published and retired,
// engines restart, go away and join, and somebody else loads other weights under our names. Soon after the run has said
// what it needs, every engine serves that with our weights, unless it has somebody else's; nobody serves those; and
// what was retired is unloaded.
func FuzzFleetRollback(f *testing.F) {
	seeds := uint64(4)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			w := newFleetRollbacks(t, rand.New(rand.NewPCG(seed, 12)))
			for range 40 {
				w.move()
			}
			w.finish()
		})
	})
}

type fleetRollbacks struct {
	*rig
	redis   *forgettingRedis
	rng     *rand.Rand
	weighed map[rollout.EngineID]*weighedEngine
	serving []fleet.Adapter // what the run needs
	retired []fleet.Adapter
	version rollout.PolicyVersion
	asserts time.Time // when the run says so again; zero: it need not
	log     []string
}

func newFleetRollbacks(t *testing.T, rng *rand.Rand) *fleetRollbacks {
	rdb := newForgettingRedis(t)
	w := &fleetRollbacks{rig: newRigOn(t, rdb), redis: rdb, rng: rng, weighed: map[rollout.EngineID]*weighedEngine{}}
	w.join()
	w.join()
	time.Sleep(3 * time.Second)
	rdb.save(t)
	return w
}

func (w *fleetRollbacks) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func (w *fleetRollbacks) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%v\n%s", err, strings.Join(w.log, "\n"))
	}
}

func (w *fleetRollbacks) join() {
	id := rollout.EngineID(fmt.Sprintf("e%d", len(w.weighed)))
	e := &weighedEngine{newFakeEngine(), map[string]string{}}
	w.weighed[id] = e
	w.clients.Store("http://"+string(id)+":8000", e)
	w.add(id)
}

// add makes an engine a member, again if Redis has forgotten it.
func (w *fleetRollbacks) add(id rollout.EngineID) {
	_, err := w.registry.Add(w.t.Context(), enginestate.Engine{ID: id, URL: "http://" + string(id) + ":8000",
		MaxInFlight: 8})
	w.ok(err)
}

func (w *fleetRollbacks) engine() (rollout.EngineID, *weighedEngine) {
	ids := slices.Sorted(maps.Keys(w.weighed))
	id := ids[w.rng.IntN(len(ids))]
	return id, w.weighed[id]
}

func (w *fleetRollbacks) adapter(v rollout.PolicyVersion) fleet.Adapter {
	a := adapter(v)
	a.Digest = fmt.Sprintf("sha256:%02d", v)
	return a
}

func (w *fleetRollbacks) move() {
	id, e := w.engine()
	switch w.rng.IntN(10) {
	case 0, 1:
		w.publish()
	case 2:
		w.retire()
	case 3:
		w.note("%s restarts", id)
		e.set(func(f *fakeEngine) { f.adapters, e.has = map[string]string{}, map[string]string{} })
	case 4:
		w.note("%s goes away, or is back", id)
		e.set(func(f *fakeEngine) {
			if f.fault = errRefused; w.rng.IntN(3) > 0 {
				f.fault = nil
			}
		})
	case 5:
		next := w.adapter(w.version + 1)
		w.note("somebody else loads %s on %s", next.Name, id)
		e.set(func(f *fakeEngine) { f.adapters[next.Name], e.has[next.Name] = next.Path, "theirs" })
	case 6:
		if len(w.weighed) < 4 {
			w.note("an engine joins")
			w.join()
		}
	case 7:
		w.note("Redis is saved")
		w.redis.save(w.t)
	case 8:
		w.goBack()
	}
	w.pass(time.Duration(w.rng.IntN(4000)) * time.Millisecond)
}

func (w *fleetRollbacks) publish() {
	w.version++
	a := w.adapter(w.version)
	w.note("%s is published", a.Name)
	loader, loaded := fleet.Loader{Records: w.registry}, 0
	for _, id := range slices.Sorted(maps.Keys(w.weighed)) {
		if _, err := loader.Load(w.t.Context(), w.weighed[id], id, a); err == nil {
			loaded++
		}
		if w.rng.IntN(12) == 0 {
			w.goBack() // in the middle of it
		}
	}
	if loaded == 0 {
		return
	}
	w.ok(w.registry.Want(w.t.Context(), a))
	w.serving = append(w.serving, a)
}

func (w *fleetRollbacks) retire() {
	if len(w.serving) < 2 {
		return
	}
	a := w.serving[0]
	w.note("%s is retired", a.Name)
	w.serving, w.retired = w.serving[1:], append(w.retired, a)
	w.ok(w.registry.Unwant(w.t.Context(), a.Name))
}

func (w *fleetRollbacks) goBack() {
	w.note("Redis goes back")
	w.redis.goBack(w.t)
	for id := range w.weighed { // by whoever knows of them
		w.add(id)
	}
	if w.asserts.IsZero() {
		w.asserts = time.Now().Add(time.Duration(w.rng.IntN(15)) * time.Second)
	}
}

// pass lets time go by, in which the run says again what it needs.
func (w *fleetRollbacks) pass(d time.Duration) {
	time.Sleep(d)
	if w.asserts.IsZero() || time.Now().Before(w.asserts) {
		return
	}
	w.asserts = time.Time{}
	w.note("the run says what it needs")
	for _, a := range w.retired {
		w.ok(w.registry.Unwant(w.t.Context(), a.Name))
	}
	for _, a := range w.serving {
		w.ok(w.registry.Want(w.t.Context(), a))
	}
}

func (w *fleetRollbacks) finish() {
	for _, e := range w.weighed {
		e.set(func(f *fakeEngine) { f.fault = nil })
	}
	w.pass(15 * time.Second)
	time.Sleep(2 * time.Minute)
	engines, err := w.registry.List(w.t.Context())
	w.ok(err)
	if len(engines) != len(w.weighed) {
		w.t.Errorf("%d engines, want %d", len(engines), len(w.weighed))
	}
	for _, engine := range engines {
		has := w.weighed[engine.ID].has
		for _, a := range w.serving {
			serves := slices.Contains(engine.Adapters, a.Name)
			if serves != (has[a.Name] == "ours") || !serves && has[a.Name] != "theirs" {
				w.t.Errorf("%s serves %s: %v, and has %q", engine.ID, a.Name, serves, has[a.Name])
			}
		}
		for _, a := range w.retired {
			if w.weighed[engine.ID].serves(a.Name) {
				w.t.Errorf("%s has %s still", engine.ID, a.Name)
			}
		}
	}
	if w.t.Failed() {
		w.t.Logf("the moves:\n%s", strings.Join(w.log, "\n"))
	}
}
