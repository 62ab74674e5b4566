package requestsim

import (
	"container/heap"
	"fmt"

	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// Control is what a fault may do to a run under way: change the world, and what the fleet is.
type Control struct {
	*World
	sim *sim
}

// Lose takes engines away, by number; what they had is asked for again.
func (c *Control) Lose(engines ...int) {
	for _, i := range engines {
		e := c.sim.engines[i]
		for _, r := range e.lose() {
			r.engine = nil
			heap.Push(&c.sim.queue, r)
		}
		c.sim.record.engine(e, enginestate.EngineLost, "connection refused")
	}
}

// Drain takes engines out as an operator does: what they have they finish.
func (c *Control) Drain(engines ...int) {
	for _, i := range engines {
		e := c.sim.engines[i]
		e.account()
		e.limit = 0
		c.sim.record.engine(e, enginestate.EngineDraining, "")
		// From here on it is no engine of the run any more; the few requests that it has are asked for again.
		for _, r := range e.lose() {
			r.engine = nil
			heap.Push(&c.sim.queue, r)
		}
	}
}

// Return brings engines back.
func (c *Control) Return(engines ...int) {
	for _, i := range engines {
		c.sim.join(c.sim.engines[i])
	}
}

// Add lets engines join.
func (c *Control) Add(n int) {
	for range n {
		c.sim.join(c.sim.newEngine())
	}
}

// Slow makes engines take so many times as long; the service notices if it is told.
func (c *Control) Slow(factor float64, noticed bool, engines ...int) {
	for _, i := range engines {
		e := c.sim.engines[i]
		e.account()
		e.slow = factor
		if was := e.paced; noticed && was != (factor > 1) {
			e.paced = factor > 1
			c.sim.record.paced(e)
		}
	}
}

// Limit changes how many requests engines are given at once.
func (c *Control) Limit(n int) {
	for _, e := range c.sim.engines {
		e.account()
		e.limit = n
	}
	c.Slots = n
}

// Operator notes what an operator did, such as "set buffer.depth=4 (was 2)".
func (c *Control) Operator(format string, args ...any) {
	c.sim.record.run(fmt.Sprintf(format, args...))
}

// Half is the numbers of half of the engines, the last ones.
func (c *Control) Half() []int { return c.Last(c.Engines / 2) }

// All is the numbers of all engines.
func (c *Control) All() []int {
	var out []int
	for i := range c.sim.engines {
		out = append(out, i)
	}
	return out
}

// Last is the numbers of the last n engines, without those that a what-if added.
func (c *Control) Last(n int) []int {
	var out []int
	for i := c.Engines - max(1, n); i < c.Engines; i++ {
		out = append(out, i)
	}
	return out
}
