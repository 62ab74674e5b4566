package batch

import (
	"math/rand/v2"
	"testing"
)

func TestSegmentsAreCachedInPart(t *testing.T) {
	t.Parallel()
	c := newPrefixCache()
	system, game := Segment{Key: 1, Blocks: 10}, Segment{Key: 2, Blocks: 5}
	touchAll(c, []Segment{system, game}, 12)
	for _, tt := range []struct {
		name   string
		prefix []Segment
		most   int
		want   int
	}{
		{"as far as it was touched", []Segment{system, game}, 100, 12},
		{"as far as is asked", []Segment{system, game}, 7, 7},
		{"another game", []Segment{system, {Key: 3, Blocks: 5}}, 100, 10},
		{"what follows a gap does not count", []Segment{{Key: 3, Blocks: 1}, game}, 100, 0},
		{"what follows half a segment does not count", []Segment{{Key: 2, Blocks: 5}, system}, 100, 2},
	} {
		if got := hitsOf(c, tt.prefix, tt.most); got != tt.want {
			t.Errorf("%s: %d blocks, want %d", tt.name, got, tt.want)
		}
	}
	c.shrink(9)
	if got := hitsOf(c, []Segment{system, game}, 100); got != 9 {
		t.Errorf("%d blocks remain of the first 9: a prefix is forgotten from its end", got)
	}
}

// FuzzSegmentsEqualBlocks holds segments against the same prefixes block by block: hits are the same ones, whatever is
// evicted in between.
func FuzzSegmentsEqualBlocks(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 7))
		whole, single := newPrefixCache(), newPrefixCache()
		lengths := map[uint64]int{}
		room := 20 + rng.IntN(200)
		own := uint64(1 << 32)
		var unfinished [][]Segment
		at := map[uint64]places{}
		for range 400 {
			var prefix []Segment
			for node := uint64(1); node < 1<<20 && rng.IntN(4) > 0; node = node*3 + uint64(rng.IntN(3)) {
				if lengths[node] == 0 {
					lengths[node] = 1 + rng.IntN(12)
				}
				prefix = append(prefix, Segment{node, lengths[node]})
			}
			blocks := 0
			for _, s := range prefix {
				blocks += s.Blocks
			}
			own++
			tail := Segment{own, 1 + rng.IntN(30)}
			prefix = append(prefix, tail)
			ask := blocks + rng.IntN(tail.Blocks+1)
			if got, want := hitsOf(whole, prefix, ask), hitsOf(single, split(prefix), ask); got != want {
				t.Fatalf("%d of %d blocks, want %d", got, ask, want)
			}
			at[own] = whole.find(prefix, nil) // and kept until it is finished
			touch := func(prefix []Segment, most int) {
				whole.touch(prefix, at[prefix[len(prefix)-1].Key], most)
				touchAll(single, split(prefix), most)
				whole.shrink(room)
				single.shrink(room)
			}
			touch(prefix, ask)
			unfinished = append(unfinished, prefix)
			if rng.IntN(2) == 0 {
				i := rng.IntN(len(unfinished))
				touch(unfinished[i], 1<<30)
				unfinished = append(unfinished[:i], unfinished[i+1:]...)
			}
			if whole.blocks != single.blocks {
				t.Fatalf("%d blocks are cached, want %d", whole.blocks, single.blocks)
			}
		}
	})
}

func touchAll(c *prefixCache, prefix []Segment, most int) { c.touch(prefix, c.find(prefix, nil), most) }

func hitsOf(c *prefixCache, prefix []Segment, most int) int {
	return c.hits(prefix, c.find(prefix, nil), most)
}

// split names every block of a prefix.
func split(prefix []Segment) []Segment {
	var out []Segment
	for _, s := range prefix {
		for i := range s.Blocks {
			out = append(out, Segment{s.Key<<16 | uint64(i), 1})
		}
	}
	return out
}
