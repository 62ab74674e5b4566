package batch

// prefixCache remembers which blocks of tokens have their keys and values computed, the least
// recently used forgotten first. A block is named by a hash of everything up to its end and of
// what else the values depend on, such as the adapter.
type prefixCache struct {
	index  map[uint64]int32
	blocks []cachedBlock // a ring: blocks[0] is the sentinel between newest and oldest
	free   []int32
}

type cachedBlock struct {
	hash         uint64
	newer, older int32
}

func newPrefixCache() *prefixCache {
	return &prefixCache{index: map[uint64]int32{}, blocks: make([]cachedBlock, 1)}
}

// hits is how many leading blocks of the list are cached.
func (c *prefixCache) hits(hashes []uint64) int {
	for n, h := range hashes {
		if _, ok := c.index[h]; !ok {
			return n
		}
	}
	return len(hashes)
}

// touch makes the blocks the most recently used, adding those that are new. The first blocks of
// a prefix are touched last: they serve more requests than its end, which is evicted before them.
func (c *prefixCache) touch(hashes []uint64) {
	for i := len(hashes) - 1; i >= 0; i-- {
		id, ok := c.index[hashes[i]]
		if ok {
			c.unlink(id)
		} else {
			id = c.allocate(hashes[i])
		}
		c.link(id)
	}
}

// shrink forgets the oldest blocks beyond n.
func (c *prefixCache) shrink(n int) {
	for len(c.index) > max(n, 0) {
		oldest := c.blocks[0].newer
		c.unlink(oldest)
		delete(c.index, c.blocks[oldest].hash)
		c.free = append(c.free, oldest)
	}
}

func (c *prefixCache) allocate(hash uint64) int32 {
	var id int32
	if n := len(c.free); n > 0 {
		id, c.free = c.free[n-1], c.free[:n-1]
	} else {
		id = int32(len(c.blocks))
		c.blocks = append(c.blocks, cachedBlock{})
	}
	c.blocks[id].hash = hash
	c.index[hash] = id
	return id
}

// link puts a block at the newest end: the sentinel's older neighbour is the newest block.
func (c *prefixCache) link(id int32) {
	newest := c.blocks[0].older
	c.blocks[id].older, c.blocks[id].newer = newest, 0
	c.blocks[newest].newer = id
	c.blocks[0].older = id
}

func (c *prefixCache) unlink(id int32) {
	b := c.blocks[id]
	c.blocks[b.older].newer = b.newer
	c.blocks[b.newer].older = b.older
}
