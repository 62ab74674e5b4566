package api

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// waiter is one long poll in progress.
type waiter struct {
	run      rollout.RunName
	step     rollout.Step
	epoch    rollout.Epoch
	since    time.Time
	deadline time.Time
	missing  string        // what the buffer said last that the batch waits for; guarded by waiters
	wake     chan struct{} // buffered, so that waking never waits; a second wake is the same as one
}

// waiters are the long polls of this process, so that they can be listed and woken.
type waiters struct {
	mu  sync.Mutex
	set map[*waiter]struct{}
}

func (w *waiters) add(one *waiter) {
	one.wake = make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.set == nil {
		w.set = map[*waiter]struct{}{}
	}
	w.set[one] = struct{}{}
}

// note keeps what a poll waits for.
func (w *waiters) note(one *waiter, missing string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one.missing = missing
}

func (w *waiters) remove(one *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.set, one)
}

// wakeAll lets every poll of the run look again at once.
func (w *waiters) wakeAll(run rollout.RunName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.set {
		if one.run != run {
			continue
		}
		select {
		case one.wake <- struct{}{}:
		default:
		}
	}
}

// list is the polls of a run, oldest first.
func (w *waiters) list(run rollout.RunName) []waiter {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []waiter
	for one := range w.set {
		if one.run == run {
			found = append(found, *one)
		}
	}
	slices.SortFunc(found, func(a, b waiter) int {
		return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.step, b.step), cmp.Compare(a.epoch, b.epoch))
	})
	return found
}
