package share_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// saturated is workers that have more to do than their engines can, each with groups of ages that lie evenly among the
// others'.
func saturated(t testing.TB, seed uint64, workers, gamesEach int, limits ...int) *fleet {
	f := newFleet(t, seed, 4*time.Second, limits...)
	for i := range workers {
		w := f.join(fmt.Sprintf("w%02d", i))
		for g := range gamesEach / 4 {
			w.play("r", rollout.GroupSeq(g*workers+i), 4)
		}
	}
	f.run(10 * time.Second)
	return f
}

// TestARestartCostsNoCapacity: of two saturated workers one goes, in order or not, and comes back without games. What
// it had begun is lost when it dies; the slots are not.
func TestARestartCostsNoCapacity(t *testing.T) {
	t.Parallel()
	for _, orderly := range []bool{true, false} {
		for _, limits := range [][]int{{16}, {24, 24}, {2, 2, 2, 2}} {
			t.Run(fmt.Sprintf("orderly %t %v", orderly, limits), func(t *testing.T) {
				t.Parallel()
				slots := 0
				for _, n := range limits {
					slots += n
				}
				f := saturated(t, 1, 2, 2*slots, limits...)
				before := f.measure(20 * time.Second)
				f.resetTop()
				games := f.kill(f.workers["w01"], orderly)
				f.after(6*time.Second, func() { // Temporal gives the games to who is there
					for _, g := range games {
						f.workers["w00"].submit(g)
					}
				})
				f.after(8*time.Second, func() { f.join("w02") })
				during := f.measure(20 * time.Second)
				if during < 0.95*before {
					t.Errorf("%.1f slots in use with a restart, %.1f before: %.1f %%; %v", during, before, 100*during/before, f)
				}
				if over := f.topOver(); over > 0 {
					t.Errorf("%d in flight beyond the limit", over)
				}
			})
		}
	}
}

// TestANewcomerGetsItsPart as soon as it has games, and the limits hold all the while.
func TestANewcomerGetsItsPart(t *testing.T) {
	t.Parallel()
	f := saturated(t, 2, 1, 200, 50, 50)
	f.resetTop()
	w := f.join("w09")
	for g := range 50 {
		w.play("r", rollout.GroupSeq(g), 4)
	}
	f.run(15 * time.Second)
	if a, b := held(f, "w00"), held(f, "w09"); a < 45 || b < 45 {
		t.Errorf("%v: want about half each", f)
	}
	if over := f.topOver(); over > 1 { // its first request at an engine
		t.Errorf("%d in flight beyond the limit", over)
	}
}

// TestAnotherEngineForOneRequest: a worker that never has more than one request has a single slot, and gets one of
// another engine when the engine of that slot has refused the request, or failed.
func TestAnotherEngineForOneRequest(t *testing.T) {
	t.Parallel()
	for _, limits := range [][]int{{72, 72}, {8, 8, 8, 8}, {3, 40}} {
		for _, outcome := range []dispatch.Outcome{dispatch.Refused, dispatch.Failed} {
			f := newFleet(t, 5, 100*time.Millisecond, limits...)
			f.join("w00")
			f.run(5 * time.Second) // it has all slots
			w := f.join("w01")
			w.play("r", 1, 1)
			f.run(2 * time.Second)
			f.served = 0
			var first rollout.EngineID
			f.ends = func(e rollout.EngineID) dispatch.Outcome {
				if first == "" {
					first = e
				}
				if e == first || outcome == dispatch.Refused {
					return outcome
				}
				return dispatch.Served
			}
			f.run(3 * time.Second)
			if refused := outcome == dispatch.Refused; refused && f.rejected != 1 || !refused && f.served == 0 {
				t.Errorf("limits %v, %v at %s: after 3 s %d served, %d rejected; %v", limits, outcome, first, f.served,
					f.rejected, f)
			}
		}
	}
}

// TestQueuesOfEnginesWithoutASlot: where requests wait for one engine each, those of a worker with a single slot do not
// wait at the other engines without end.
func TestQueuesOfEnginesWithoutASlot(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 6, 100*time.Millisecond, 72, 72)
	f.join("w00")
	f.run(5 * time.Second) // it has all slots
	w := f.join("w01")
	w.handle(dispatch.RunRules{Run: "r", Rules: runspec.Dispatch{Policy: runspec.RoundRobin, Queue: runspec.EngineQueue}})
	w.play("r", 1, 1)
	f.run(2 * time.Second)
	before := f.served
	if f.run(3 * time.Second); f.served-before < 3 {
		t.Errorf("%d answers in 3 s, each of which takes 0.1 s; %v", f.served-before, f)
	}
}

func held(f *fleet, worker string) int {
	sum := 0
	for _, n := range f.workers[worker].Shares {
		sum += n
	}
	return sum
}

// TestSteadyLoadIsSteady: the shares of workers whose games think between turns do not swing, and no slots are idle
// while somebody waits.
func TestSteadyLoadIsSteady(t *testing.T) {
	t.Parallel()
	f := saturated(t, 3, 4, 80, 32, 32)
	f.thinks = time.Second
	f.run(15 * time.Second)
	f.moved = 0
	f.resetTop()
	if used := f.measure(time.Minute); used < 0.95*64 {
		t.Errorf("%.1f of 64 slots are in use", used)
	}
	if most := 64 * 60 / 10; f.moved > most { // a tenth of them in a second
		t.Errorf("%d slots changed hands in a minute, want at most %d", f.moved, most)
	}
	if over := f.topOver(); over > 0 {
		t.Errorf("%d in flight beyond the limit", over)
	}
}

// TestOldestGroupFirstAcrossWorkers: the worker with the older groups is served first, the other one has what is left
// and an eighth of an equal share at least.
func TestOldestGroupFirstAcrossWorkers(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4, 4*time.Second, 40, 40)
	young, old := f.join("a"), f.join("b")
	young.play("r", 100, 200)
	f.run(20 * time.Second)
	old.play("r", 1, 60)
	f.run(20 * time.Second)
	f.bySeq = map[rollout.GroupSeq]int{}
	f.run(time.Minute)
	// 60 games at 4 s each for a minute, if none of them waits.
	if got := f.bySeq[1]; got < 60*15*85/100 {
		t.Errorf("the older group got %d answers, of %d; %v", got, 60*15, f)
	}
	if got := f.bySeq[100]; got < 20*15*70/100 {
		t.Errorf("the younger group got %d answers, of %d that there was room for; %v", got, 20*15, f)
	}
}

// TestRunsShareAcrossWorkers: a run that is alone on its worker gets as much as one that has three.
func TestRunsShareAcrossWorkers(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 5, 4*time.Second, 48, 48)
	for _, id := range []string{"a", "b", "c"} {
		f.join(id).play("x", 1, 200)
	}
	f.join("d").play("y", 9000, 200)
	f.run(30 * time.Second)
	f.byRun = map[rollout.RunName]int{}
	f.run(time.Minute)
	if x, y := f.byRun["x"], f.byRun["y"]; x*10 > y*11 || y*10 > x*11 {
		t.Errorf("run x got %d answers, run y %d", x, y)
	}
}

// TestWhatMayGoWrong: a worker that is frozen for ten seconds, Redis away for thirty, forty workers and three slots, a
// limit that is lowered.
func TestWhatMayGoWrong(t *testing.T) {
	t.Parallel()
	t.Run("frozen", func(t *testing.T) {
		t.Parallel()
		f := saturated(t, 6, 2, 60, 20, 20)
		w := f.workers["w01"]
		w.frozen = true
		f.run(10 * time.Second)
		f.resetTop()
		w.thaw()
		f.run(7 * time.Second) // its answers, and what it sends before it has looked; then a completion
		f.resetTop()
		if used := f.measure(20 * time.Second); used < 0.95*40 {
			t.Errorf("%.1f of 40 slots are in use; %v", used, f)
		}
		if over := f.topOver(); over > 0 {
			t.Errorf("%d in flight beyond the limit; %v", over, f)
		}
	})
	t.Run("redis does not answer", func(t *testing.T) {
		t.Parallel()
		f := saturated(t, 7, 3, 40, 20, 20)
		f.resetTop()
		f.cut = true
		f.run(30 * time.Second)
		f.cut = false
		f.run(30 * time.Second)
		if over := f.topOver(); over > 0 {
			t.Errorf("%d in flight beyond the limit; %v", over, f)
		}
	})
	t.Run("forty workers and three slots", func(t *testing.T) {
		t.Parallel()
		f := saturated(t, 8, 40, 4, 3)
		f.bySeq = map[rollout.GroupSeq]int{}
		f.run(20 * time.Second)
		if len(f.bySeq) < 40 {
			t.Errorf("groups of %d workers were served, want all 40", len(f.bySeq))
		}
		if over := f.topOver(); over > 40 {
			t.Errorf("%d in flight beyond the limit", over)
		}
	})
	t.Run("limit lowered", func(t *testing.T) {
		t.Parallel()
		f := saturated(t, 9, 3, 40, 60)
		f.engines[0].MaxInFlight = 10
		f.run(7 * time.Second) // a completion
		f.resetTop()
		if used := f.measure(20 * time.Second); used < 0.95*10 {
			t.Errorf("%.1f of 10 slots are in use; %v", used, f)
		}
		if over := f.topOver(); over > 0 {
			t.Errorf("%d in flight beyond the limit", over)
		}
	})
}
