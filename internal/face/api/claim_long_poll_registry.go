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
	run        rollout.RunName
	step       rollout.Step
	generation rollout.TrainerGeneration
	since      time.Time
	deadline   time.Time
	missing    string        // what the buffer said last that the batch waits for; guarded by waiters
	wake       chan struct{} // buffered, so that waking never waits; a second wake is the same as one
}

// waiters are the long polls of this process, so that they can be listed and woken.
type waiters struct {
	mu  sync.Mutex
	set map[waitedStep][]*waiter // oldest first
}

// waitedStep is a step that several ranks of a trainer wait for together.
type waitedStep struct {
	run        rollout.RunName
	step       rollout.Step
	generation rollout.TrainerGeneration
}

func (w *waiter) awaited() waitedStep { return waitedStep{w.run, w.step, w.generation} }

func (w *waiters) add(one *waiter) {
	one.wake = make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.set == nil {
		w.set = map[waitedStep][]*waiter{}
	}
	w.set[one.awaited()] = append(w.set[one.awaited()], one)
}

// note keeps what a poll waits for.
func (w *waiters) note(one *waiter, missing string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one.missing = missing
}

// first reports whether a poll is the one that looks often, for all that wait for the same step.
func (w *waiters) first(one *waiter) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.set[one.awaited()][0] == one
}

// remove takes a poll off the list; the next one is woken to look in its place.
func (w *waiters) remove(one *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	same := w.set[one.awaited()]
	at := slices.Index(same, one)
	same = slices.Delete(same, at, at+1)
	if len(same) == 0 {
		delete(w.set, one.awaited())
		return
	}
	if w.set[one.awaited()] = same; at == 0 {
		same[0].nudge()
	}
}

// nudge wakes a poll.
func (w *waiter) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// wakeStep lets every poll for a step look again at once: its batch is there.
func (w *waiters) wakeStep(run rollout.RunName, step rollout.Step) {
	w.each(func(one *waiter, _ bool) {
		if one.run == run && one.step == step {
			one.nudge()
		}
	})
}

// wakeFirst lets the first poll of each step that the run's trainers wait for look at once, or of every run.
func (w *waiters) wakeFirst(run rollout.RunName, all bool) {
	w.each(func(one *waiter, first bool) {
		if first && (all || one.run == run) {
			one.nudge()
		}
	})
}

// wakeAll lets every poll of the run look again at once.
func (w *waiters) wakeAll(run rollout.RunName) {
	w.each(func(one *waiter, _ bool) {
		if one.run == run {
			one.nudge()
		}
	})
}

// each calls see with every poll, and whether it is the first of its step.
func (w *waiters) each(see func(one *waiter, first bool)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, same := range w.set {
		for i, one := range same {
			see(one, i == 0)
		}
	}
}

// of lists the polls of a run, oldest first.
func (w *waiters) of(run rollout.RunName) []waiter {
	var found []waiter
	w.each(func(one *waiter, _ bool) {
		if one.run == run {
			found = append(found, *one)
		}
	})
	slices.SortFunc(found, func(a, b waiter) int {
		return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.step, b.step), cmp.Compare(a.generation, b.generation))
	})
	return found
}
