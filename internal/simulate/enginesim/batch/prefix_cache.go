package batch

// Segment is consecutive blocks that requests have in common as a whole: whoever has its first block has the others.
// One block alone is a segment, too.
type Segment struct {
	// Key is a hash of everything up to the segment's end and of what else the values depend on, such as the adapter.
	Key    uint64
	Blocks int
}

// prefixCache remembers which blocks of tokens have their keys and values computed, the least recently used forgotten
// first. Blocks of one segment are used together, so that it remembers how many of its leading ones there are.
type prefixCache struct {
	index    map[uint64]int32
	segments []cachedSegment // a ring: segments[0] is the sentinel between newest and oldest
	free     []int32
	blocks   int
}

type cachedSegment struct {
	key          uint64
	blocks       int // leading ones
	newer, older int32
}

func newPrefixCache() *prefixCache {
	return &prefixCache{index: map[uint64]int32{}, segments: make([]cachedSegment, 1)}
}

// places is where the segments of a prefix are in the cache, so that each is looked for once: its index; negative: it
// is not there. It holds until the segment is forgotten, which shows in its key.
type places []int32

// find looks for the segments of a prefix.
func (c *prefixCache) find(prefix []Segment, at places) places {
	at = at[:0]
	for _, s := range prefix {
		id, ok := c.index[s.Key]
		if !ok {
			id = -1
		}
		at = append(at, id)
	}
	return at
}

// hits is how many of the first most blocks of a prefix are cached without a gap.
func (c *prefixCache) hits(prefix []Segment, at places, most int) int {
	n := 0
	for i, s := range prefix {
		want := min(s.Blocks, most-n)
		if want <= 0 || at[i] < 0 {
			break
		}
		have := min(want, c.segments[at[i]].blocks)
		n += have
		if have < s.Blocks {
			break
		}
	}
	return n
}

// touch makes the first most blocks of a prefix the most recently used, adding those that are new. The first blocks
// are touched last: they serve more requests than the prefix's end, which is evicted before them.
func (c *prefixCache) touch(prefix []Segment, at places, most int) {
	last := 0
	for ; last < len(prefix) && most > 0; last++ {
		most -= prefix[last].Blocks
	}
	beyond := max(0, -most) // blocks of the last segment that are not touched
	for i := last - 1; i >= 0; i-- {
		at[i] = c.touchSegment(prefix[i].Key, at[i], prefix[i].Blocks-beyond)
		beyond = 0
	}
}

// touchSegment returns where the segment is.
func (c *prefixCache) touchSegment(key uint64, id int32, blocks int) int32 {
	here := id >= 0 && c.segments[id].key == key && c.segments[id].blocks > 0
	if !here {
		id, here = c.index[key]
	}
	if here {
		c.unlink(id)
	} else {
		id = c.allocate(key)
	}
	if more := blocks - c.segments[id].blocks; more > 0 {
		c.segments[id].blocks += more
		c.blocks += more
	}
	c.link(id)
	return id
}

// shrink forgets the oldest blocks beyond n. A segment's last ones are its oldest.
func (c *prefixCache) shrink(n int) {
	for c.blocks > max(n, 0) {
		id := c.segments[0].newer
		oldest := &c.segments[id]
		evicted := min(oldest.blocks, c.blocks-max(n, 0))
		oldest.blocks -= evicted
		c.blocks -= evicted
		if oldest.blocks == 0 {
			c.unlink(id)
			delete(c.index, oldest.key)
			c.free = append(c.free, id)
		}
	}
}

func (c *prefixCache) allocate(key uint64) int32 {
	var id int32
	if n := len(c.free); n > 0 {
		id, c.free = c.free[n-1], c.free[:n-1]
	} else {
		id = int32(len(c.segments))
		c.segments = append(c.segments, cachedSegment{})
	}
	c.segments[id] = cachedSegment{key: key}
	c.index[key] = id
	return id
}

// link puts a segment at the newest end: the sentinel's older neighbour is the newest segment.
func (c *prefixCache) link(id int32) {
	newest := c.segments[0].older
	c.segments[id].older, c.segments[id].newer = newest, 0
	c.segments[newest].newer = id
	c.segments[0].older = id
}

func (c *prefixCache) unlink(id int32) {
	s := c.segments[id]
	c.segments[s.older].newer = s.newer
	c.segments[s.newer].older = s.older
}
