package rollout

import "hash/fnv"

// SpreadHash ranks pairs of names, such as a worker's and an engine's: for each first name the second ones in another
// order, the same in every process.
func SpreadHash(first, second string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(first))
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(second))
	// Names that differ in their last byte only would rank alike: FNV spreads that byte too little.
	x := h.Sum64()
	x ^= x >> 32
	x *= 0x9E3779B97F4A7C15
	return x ^ x>>29
}
