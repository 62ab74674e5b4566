package diplomacy

import (
	"iter"
	"math/bits"
)

// MaxProvinces bounds the provinces of a map, and so the size of a State.
const MaxProvinces = 256

// A ProvinceSet is a set of provinces as a value: assigning it copies it, == compares it.
type ProvinceSet [MaxProvinces / 64]uint64

// Has reports whether p is in the set.
func (s *ProvinceSet) Has(p Province) bool { return s[p>>6]&(1<<(p&63)) != 0 }

// Add puts p into the set.
func (s *ProvinceSet) Add(p Province) { s[p>>6] |= 1 << (p & 63) }

// Remove takes p out of the set.
func (s *ProvinceSet) Remove(p Province) { s[p>>6] &^= 1 << (p & 63) }

// Empty reports whether nothing is in the set.
func (s *ProvinceSet) Empty() bool { return s[0]|s[1]|s[2]|s[3] == 0 }

// Len counts the members.
func (s *ProvinceSet) Len() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// All yields the members in map order.
func (s ProvinceSet) All() iter.Seq[Province] {
	return func(yield func(Province) bool) {
		for i, w := range s {
			for ; w != 0; w &= w - 1 {
				if !yield(Province(i<<6 + bits.TrailingZeros64(w))) {
					return
				}
			}
		}
	}
}

func (s ProvinceSet) union(t *ProvinceSet) ProvinceSet {
	return ProvinceSet{s[0] | t[0], s[1] | t[1], s[2] | t[2], s[3] | t[3]}
}

func (s ProvinceSet) and(t *ProvinceSet) ProvinceSet {
	return ProvinceSet{s[0] & t[0], s[1] & t[1], s[2] & t[2], s[3] & t[3]}
}

func (s ProvinceSet) minus(t *ProvinceSet) ProvinceSet {
	return ProvinceSet{s[0] &^ t[0], s[1] &^ t[1], s[2] &^ t[2], s[3] &^ t[3]}
}

func (s *ProvinceSet) meets(t *ProvinceSet) bool {
	return s[0]&t[0]|s[1]&t[1]|s[2]&t[2]|s[3]&t[3] != 0
}
