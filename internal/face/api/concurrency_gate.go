package api

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// gate bounds the calls in progress, and those of one key, such as a run: a run with many calls delays only its own.
// Waiting calls enter by age; those whose key is at its bound are passed over.
type gate struct {
	most, perKey int
	patience     time.Duration // how long a call waits to be let in; 0: not at all

	mu      sync.Mutex
	inside  int
	held    map[string]int
	waiting list.List // of *waitingCall
}

// waitingCall is a call that waits.
type waitingCall struct {
	key string
	in  chan struct{} // closed when it is let in
}

// newGate lets most calls in, perKey of them for one key.
func newGate(most, perKey int, patience time.Duration) *gate {
	return &gate{most: most, perKey: max(1, min(most, perKey)), patience: patience, held: map[string]int{}}
}

// resize lets another number in from now on. Who is inside stays.
func (g *gate) resize(most, perKey int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.most, g.perKey = most, max(1, min(most, perKey))
	g.admitWaiting()
}

// waitingBound is how many calls may wait for one gate, as a multiple of those inside.
const waitingBound = 16

// enter waits to be let in, for as long as the gate's patience or ctx lasts. leave must be called once if ok.
func (g *gate) enter(ctx context.Context, key string) (leave func(), ok bool) {
	g.mu.Lock()
	if g.fits(key) {
		g.take(key)
		g.mu.Unlock()
		return g.leaver(key), true
	}
	if g.patience <= 0 || g.waiting.Len() >= waitingBound*g.most {
		g.mu.Unlock()
		return nil, false
	}
	t := &waitingCall{key, make(chan struct{})}
	place := g.waiting.PushBack(t)
	g.mu.Unlock()

	over := time.NewTimer(g.patience)
	defer over.Stop()
	select {
	case <-t.in:
		return g.leaver(key), true
	case <-over.C:
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-t.in: // let in at the last moment
		return g.leaver(key), true
	default:
		g.waiting.Remove(place)
		return nil, false
	}
}

func (g *gate) fits(key string) bool { return g.inside < g.most && g.held[key] < g.perKey }

func (g *gate) take(key string) {
	g.inside++
	g.held[key]++
}

func (g *gate) leaver(key string) func() {
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.inside--
		if g.held[key]--; g.held[key] == 0 {
			delete(g.held, key)
		}
		g.admitWaiting()
	})
}

// admitWaiting lets those in that wait and have room now.
func (g *gate) admitWaiting() {
	for e := g.waiting.Front(); e != nil && g.inside < g.most; {
		t, next := e.Value.(*waitingCall), e.Next()
		if g.fits(t.key) {
			g.take(t.key)
			g.waiting.Remove(e)
			close(t.in)
		}
		e = next
	}
}
