package api

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// TestAGateKeepsRoomForOthers: one key gets its part and no more, others are let in past those of it that wait, and
// who waits too long is turned away.
func TestAGateKeepsRoomForOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		g := newGate(4, 3, time.Second)
		var leave []func()
		for range 3 {
			out, ok := g.enter(ctx, "greedy")
			if !ok {
				t.Fatal("a call within its key's part is turned away")
			}
			leave = append(leave, out)
		}
		late := make(chan bool, 1)
		go func() {
			out, ok := g.enter(ctx, "greedy")
			late <- ok
			if ok {
				out()
			}
		}()
		synctest.Wait()
		out, ok := g.enter(ctx, "modest")
		if !ok {
			t.Fatal("a call of another key is turned away")
		}
		out()
		leave[0]()
		leave[0]() // a second time is the same as once
		if !<-late {
			t.Fatal("a call that waited is not let in when there is room")
		}
		again, _ := g.enter(ctx, "greedy")
		began := time.Now()
		if _, ok := g.enter(ctx, "greedy"); ok || time.Since(began) != time.Second {
			t.Errorf("a call beyond the part: let in: %v, after %v; want it turned away after 1s", ok, time.Since(began))
		}
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if _, ok := g.enter(gone, "greedy"); ok {
			t.Error("a call whose client has gone is let in")
		}
		again()
		leave[1]()
		leave[2]()
		if g.inside != 0 || len(g.held) != 0 || g.waiting.Len() != 0 {
			t.Errorf("all have left, and there are %d inside, %d held, %d waiting", g.inside, len(g.held), g.waiting.Len())
		}
	})
}

// TestAGateThatIsResized: those that wait are let in as far as there is room now, and nobody inside has to leave.
func TestAGateThatIsResized(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1, 1, time.Minute)
		leave, _ := g.enter(t.Context(), "a")
		var inside atomic.Int32
		for range 3 {
			go func() {
				if _, ok := g.enter(t.Context(), "a"); ok {
					inside.Add(1)
				}
			}()
		}
		synctest.Wait()
		g.resize(3, 3)
		synctest.Wait()
		if got := inside.Load(); got != 2 {
			t.Errorf("%d are let in beside the first, want 2 of 3", got)
		}
		g.resize(1, 1)
		leave()
		synctest.Wait()
		if got := inside.Load(); got != 2 || g.inside != 2 {
			t.Errorf("after it has shrunk below those inside: %d let in, %d inside", got, g.inside)
		}
		g.resize(3, 3)
		synctest.Wait()
		if got := inside.Load(); got != 3 {
			t.Errorf("%d are let in once there is room again", got)
		}
	})
}

// TestOneRunLeavesRoomForOthers: of what the configuration lets in, one run gets at most three quarters, from the start
// and with what is read again.
func TestOneRunLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"requests", "waiting", "streams"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				limits := func(n int) Limits { return Limits{Requests: n, WaitingClaims: n, Streams: n} }
				all := newGates(limits(8))
				var greedy, modest int
				enter := func(run rollout.RunName, got *int, want int) {
					t.Helper()
					for range 16 {
						if _, refused := all.enter(t.Context(), name, run); refused == nil {
							*got++
						}
					}
					if *got != want {
						t.Errorf("%d calls of %s are in progress, want %d", *got, run, want)
					}
				}
				enter("greedy", &greedy, 6)
				enter("modest", &modest, 2)
				all.resize(limits(16))
				enter("greedy", &greedy, 12)
				enter("modest", &modest, 4)
			})
		})
	}
}
