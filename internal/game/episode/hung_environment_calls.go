package episode

import (
	"fmt"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// Watch shows what the environment of one game is doing, to whoever asks from another goroutine. Calls of an
// environment take no context: one that hangs can be noticed and left behind, but not stopped. The zero value is
// ready for use.
type Watch struct {
	mu    sync.Mutex
	under call
	left  error // why the game was left behind
}

// call is one call of an environment.
type call struct {
	name    string // empty: none is under way
	since   time.Time
	phase   rollout.Duration // how long a phase may take; 0: as long as it likes
	spent   time.Duration    // by the phase before this call
	attempt int
}

// Leave leaves the game behind if a call of its environment has been under way, at time now, for longer than its
// phase may take, and returns why; nil if none has. Once left, a game does nothing more: when the call returns
// after all, Play returns the same failure at once.
func (w *Watch) Leave(now time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left == nil && w.under.overdue(now) {
		w.left = w.under.hung(now)
	}
	return w.left
}

// enter notes a call. It fails if the game was left behind.
func (w *Watch) enter(c call) error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.under = c
	return w.left
}

// exit notes that the call has returned. It fails if the game was left behind meanwhile.
func (w *Watch) exit() error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.under = call{}
	return w.left
}

func (c *call) overdue(now time.Time) bool {
	return c.name != "" && c.phase > 0 && c.spent+now.Sub(c.since) > c.phase.Std()
}

// hungAttempts is how many attempts at a game may hang. The first ones may have been a stopped process or a machine
// without memory. Each may leave a goroutine behind forever, and a pure environment hangs again in the same place.
const hungAttempts = 3

func (c *call) hung(now time.Time) error {
	kind := rollout.Retryable
	if c.attempt >= hungAttempts {
		kind = rollout.GameFault
	}
	return rollout.Fail(kind, rollout.CodeEnvironmentHung,
		fmt.Errorf("%s has not returned for %.1f s; a phase may take %s (timeouts.phase), and %.1f s of it were spent before",
			c.name, now.Sub(c.since).Seconds(), c.phase, c.spent.Seconds()))
}
