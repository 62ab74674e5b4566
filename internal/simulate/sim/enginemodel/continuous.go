package enginemodel

import (
	"slices"
	"time"

	"github.com/millrace/millrace/internal/simulate/enginesim/batch"
)

// Continuous is an engine that batches continuously, as vLLM does: the scheduler of the simulated engine, whose time is
// the caller's.
type Continuous struct {
	scheduler *batch.Scheduler
	limits    batch.Limits
	factor    float64 // of every time

	held   []heldCall // by the scheduler's request id
	free   []int32    // places in held
	events []Event

	adapter     string // used last
	adapterSeed uint64 // of its prefix keys
}

// heldCall is a call in the engine.
type heldCall struct {
	id     uint64
	cached int
	prefix []batch.Segment // its memory is used again
	in     bool
}

var _ Engine = (*Continuous)(nil)

// NewContinuous is an idle engine. timeFactor multiplies every time of its cost: 0.033 is an engine that is simulated
// at 30 times its speed; 0: 1.
func NewContinuous(cost batch.Cost, limits batch.Limits, timeFactor float64) *Continuous {
	if timeFactor == 0 {
		timeFactor = 1
	}
	c := &Continuous{scheduler: batch.New(cost, limits), limits: limits, factor: timeFactor}
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
		place := c.place()
		h := &c.held[place]
		h.id, h.cached, h.in = call.ID, 0, true
		if !c.limits.NoPrefix {
			h.prefix = c.segments(h.prefix[:0], call)
		}
		if err := c.scheduler.Submit(now, batch.Request{
			ID: int64(place), Adapter: call.Adapter, Prompt: call.Prompt, Output: call.Output, Prefix: h.prefix,
		}); err != nil {
			return err // not reached: lengths are checked above
		}
	}
	return nil
}

func (c *Continuous) place() int32 {
	if n := len(c.free); n > 0 {
		p := c.free[n-1]
		c.free = c.free[:n-1]
		return p
	}
	c.held = append(c.held, heldCall{})
	return int32(len(c.held) - 1)
}

func (c *Continuous) release(place int32) {
	c.held[place].in = false
	c.free = append(c.free, place)
}

// segments cuts a call's prompt and output where its shared prefixes end, in whole blocks: a block that is shared in
// part is not shared. What follows the last shared prefix is the call's own.
func (c *Continuous) segments(list []batch.Segment, call *Call) []batch.Segment {
	if call.Adapter != c.adapter {
		c.adapter, c.adapterSeed = call.Adapter, adapterSeed(call.Adapter)
	}
	blocks := 0
	all := (call.Prompt + call.Output) / c.limits.Block
	add := func(key uint64, end int) {
		if end > blocks {
			list = append(list, batch.Segment{Key: mix(mix(c.adapterSeed^key) + uint64(blocks)), Blocks: end - blocks})
			blocks = end
		}
	}
	for _, p := range call.Shared {
		add(p.Key, min(p.Tokens/c.limits.Block, all))
	}
	add(mix(^call.ID), all)
	return list
}

// adapterSeed sets an adapter's prefixes apart: a new version starts with a cold cache.
func adapterSeed(name string) uint64 {
	h := uint64(14695981039346656037) // FNV-1a
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return mix(h)
}

// mix spreads the bits of a number (the last step of splitmix64).
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// Abort takes a call out.
func (c *Continuous) Abort(now time.Duration, id uint64) bool {
	place := slices.IndexFunc(c.held, func(h heldCall) bool { return h.in && h.id == id })
	if place < 0 || !c.scheduler.Abort(now, int64(place)) {
		return false
	}
	c.release(int32(place))
	return true
}

// Load brings an adapter into memory between steps.
func (c *Continuous) Load(now time.Duration, id uint64, adapter string) {
	c.scheduler.Load(now, int64(id), adapter)
}

// SetSlow multiplies the time of steps yet to begin.
func (c *Continuous) SetSlow(now time.Duration, factor float64) {
	c.scheduler.SetSlow(now, c.factor*factor)
}

// SetPaused stops the engine after the step in progress, or lets it go on.
func (c *Continuous) SetPaused(now time.Duration, paused bool) { c.scheduler.SetPaused(now, paused) }

// Advance computes up to now and reports what happened.
func (c *Continuous) Advance(now time.Duration) []Event {
	c.events = c.events[:0]
	events := c.scheduler.Advance(now)
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case batch.Admitted:
			c.held[e.ID].cached = e.Cached
		case batch.Finished:
			h := &c.held[e.ID]
			c.events = append(c.events, Event{At: e.At, ID: h.id, Kind: Ended, Cached: h.cached})
			c.release(int32(e.ID))
		case batch.Loaded:
			c.events = append(c.events, Event{At: e.At, ID: uint64(e.ID), Kind: Loaded})
		case batch.FirstToken:
		}
	}
	return c.events
}

// Next is when something will next be reported: at the latest when the running calls change.
func (c *Continuous) Next() (time.Duration, bool) { return c.scheduler.Next() }

// Stats is the engine's load and counters as of the last call.
func (c *Continuous) Stats() Stats {
	running, waiting, kv := c.scheduler.InUse()
	totals := c.scheduler.Totals()
	return Stats{
		Running: running, Waiting: waiting, KV: kv, KVRoom: c.limits.KV,
		Prompt: totals.PromptTokens, Cached: totals.CachedTokens, Output: totals.GenerationTokens, Busy: totals.Busy,
	}
}
