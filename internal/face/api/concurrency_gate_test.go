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

// TestADiagnosisIsMadeOnceForAllWhoAskMeanwhile: and again when the account has changed, when it is old, or when it
// failed.
func TestADiagnosisIsMadeOnceForAllWhoAskMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		made, mark := 0, accountMark{claimed: 1}
		var fails error
		c := diagnosisCache{now: time.Now, diagnose: func(context.Context, rollout.RunName) (any, accountMark, error) {
			made++
			time.Sleep(time.Second)
			return made, mark, fails
		}}
		fresh := func(d diagnosed) bool { return d.err == nil && d.of == mark && time.Since(d.at) < diagnosisAge }
		ask := func() any {
			value, err := c.of(t.Context(), "demo", fresh)
			if err != nil {
				t.Error(err)
			}
			return value
		}
		for range 60 {
			go ask()
		}
		synctest.Wait()
		if value, err := c.latest(t.Context(), "demo", fresh, time.Millisecond); value != nil || err != nil {
			t.Errorf("before there is one: %v, %v", value, err)
		}
		time.Sleep(2 * time.Second)
		if ask(); made != 1 {
			t.Errorf("made %d times for 61 who asked", made)
		}
		mark = accountMark{claimed: 2}
		if ask(); made != 2 {
			t.Errorf("made %d times after the account has changed", made)
		}
		time.Sleep(diagnosisAge)
		if value, err := c.latest(t.Context(), "demo", fresh, time.Millisecond); value != 2 || err != nil {
			t.Errorf("while the next one is made, who watches is shown %v, %v", value, err)
		}
		if ask(); made != 3 {
			t.Errorf("made %d times when the last one was old", made)
		}
		fails = rollout.Refuse(rollout.NoSuchRun, "none")
		for range 2 {
			if _, err := c.of(t.Context(), "other", fresh); err == nil {
				t.Error("a failure is lost")
			}
		}
		if made != 5 {
			t.Errorf("made %d times: a failure is kept", made)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.of(gone, "third", fresh); err == nil {
			t.Error("who has gone is given a diagnosis")
		}
		time.Sleep(2 * time.Second) // It is made all the same.
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
