package batch

import (
	"slices"
	"time"
)

// adapterCache knows where adapters' weights are: in GPU slots, in host memory, or on disk only.
// Both places forget the least recently used first; slots in use are kept.
type adapterCache struct {
	slots, host int
	onGPU       []string // the latest used last
	inHost      []string
	running     map[string]int // sequences per adapter
}

func newAdapterCache(slots, host int) *adapterCache {
	return &adapterCache{slots: slots, host: max(host, slots), running: map[string]int{}}
}

// admits reports whether a sequence of this adapter may join the running ones.
func (c *adapterCache) admits(adapter string) bool {
	return adapter == "" || c.running[adapter] > 0 || len(c.running) < c.slots
}

func (c *adapterCache) enter(adapter string) {
	if adapter != "" {
		c.running[adapter]++
	}
}

func (c *adapterCache) leave(adapter string) {
	if c.running[adapter]--; c.running[adapter] <= 0 {
		delete(c.running, adapter)
	}
}

// use brings an adapter into a slot and tells how long that takes.
func (c *adapterCache) use(adapter string, cost Cost) time.Duration {
	if adapter == "" {
		return 0
	}
	var took time.Duration
	if !slices.Contains(c.inHost, adapter) {
		took += cost.AdapterRead
	}
	c.inHost = latest(c.inHost, adapter)
	if over := len(c.inHost) - c.host; over > 0 {
		c.inHost = slices.Delete(c.inHost, 0, over)
	}
	if !slices.Contains(c.onGPU, adapter) {
		took += cost.AdapterCopy
	}
	c.onGPU = latest(c.onGPU, adapter)
	if len(c.onGPU) > c.slots {
		idle := slices.IndexFunc(c.onGPU, func(a string) bool { return c.running[a] == 0 })
		c.onGPU = slices.Delete(c.onGPU, idle, idle+1)
	}
	return took
}

// latest moves s to the end of the list, adding it where it is missing.
func latest(list []string, s string) []string {
	if i := slices.Index(list, s); i >= 0 {
		list = slices.Delete(list, i, i+1)
	}
	return append(list, s)
}
