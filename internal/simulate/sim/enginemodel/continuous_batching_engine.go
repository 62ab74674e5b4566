package enginemodel

import (
	"cmp"
	"time"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/simulate/enginesim/batch"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
)

// Continuous is an engine that batches continuously, as vLLM does: the scheduler of the simulated engine, whose time is
// the caller's.
type Continuous struct {
	*batch.Scheduler
	limits batch.Limits
	factor float64 // of every time
	events []Event

	adapter     string // used last
	adapterSeed uint64 // of its prefix keys
}

var _ Engine = (*Continuous)(nil)

// NewContinuous is an idle engine. timeFactor multiplies every time of its cost: 0.033 is an engine that is simulated
// at 30 times its speed; 0: 1.
func NewContinuous(cost batch.Cost, limits batch.Limits, timeFactor float64) *Continuous {
	timeFactor = cmp.Or(timeFactor, 1)
	c := &Continuous{Scheduler: batch.New(cost, limits), limits: limits, factor: timeFactor}
	c.SetSlow(0, 1)
	c.adapterSeed = adapterSeed("")
	return c
}

// Submit queues calls. They are considered when the step in progress ends.
func (c *Continuous) Submit(now time.Duration, calls []Call) error {
	for i := range calls {
		if calls[i].Prompt+calls[i].Output > c.limits.KV {
			return batch.ErrTooLong
		}
	}
	for i := range calls {
		call := &calls[i]
		request := batch.Request{ID: int64(call.ID), Adapter: call.Adapter, Prompt: call.Prompt, Output: call.Output}
		if !c.limits.NoPrefix {
			request.Prefix = c.segments(call)
		}
		if err := c.Scheduler.Submit(now, request); err != nil {
			return err // not reached: lengths are checked above
		}
	}
	return nil
}

// segments cuts a call's prompt and output where its shared prefixes end, in whole blocks: a block that is shared in
// part is not shared. What follows the last shared prefix is the call's own.
func (c *Continuous) segments(call *Call) []batch.Segment {
	if call.Adapter != c.adapter {
		c.adapter, c.adapterSeed = call.Adapter, adapterSeed(call.Adapter)
	}
	list := make([]batch.Segment, 0, len(call.Shared)+1)
	blocks := 0
	all := (call.Prompt + call.Output) / c.limits.Block
	add := func(key uint64, end int) {
		if end > blocks {
			key = stat.Mix(stat.Mix(c.adapterSeed^key) + uint64(blocks))
			list = append(list, batch.Segment{Key: key, Blocks: end - blocks})
			blocks = end
		}
	}
	for _, p := range call.Shared {
		add(p.Key, min(p.Tokens/c.limits.Block, all))
	}
	add(stat.Mix(^call.ID), all)
	return list
}

// adapterSeed sets an adapter's prefixes apart: a new version starts with a cold cache.
func adapterSeed(name string) uint64 { return stat.Mix(virtualtime.Hash(name)) }

// Abort takes a call out.
func (c *Continuous) Abort(now time.Duration, id uint64) bool {
	return c.Scheduler.Abort(now, int64(id))
}

// Load brings an adapter into memory between steps.
func (c *Continuous) Load(now time.Duration, id uint64, adapter string) {
	c.Scheduler.Load(now, int64(id), adapter)
}

// SetSlow multiplies the time of steps yet to begin.
func (c *Continuous) SetSlow(now time.Duration, factor float64) {
	c.Scheduler.SetSlow(now, c.factor*factor)
}

// Advance computes up to now and reports what happened.
func (c *Continuous) Advance(now time.Duration) []Event {
	c.events = c.events[:0]
	for _, e := range c.Scheduler.Advance(now) {
		switch e.Kind {
		case batch.Finished:
			c.events = append(c.events, Event{At: e.At, ID: uint64(e.ID), Kind: Ended, Cached: e.Cached})
		case batch.Loaded:
			c.events = append(c.events, Event{At: e.At, ID: uint64(e.ID), Kind: Loaded})
		case batch.Admitted, batch.FirstToken:
		}
	}
	return c.events
}

// Stats is the engine's load and counters as of the last call.
func (c *Continuous) Stats() Stats {
	running, waiting, kv := c.InUse()
	totals := c.Totals()
	return Stats{
		Running: running, Waiting: waiting, KV: kv, KVRoom: c.limits.KV,
		Prompt: totals.PromptTokens, Cached: totals.CachedTokens, Output: totals.GenerationTokens, Busy: totals.Busy,
	}
}
