package virtualtime

import (
	"hash/fnv"
	"math"

	"github.com/millrace/millrace/internal/kit/stat"
)

// Random is a stream of random numbers: splitmix64 (Steele, Lea and Flood, OOPSLA 2014), which is the same in every
// language to the last bit.
type Random struct{ state uint64 }

// Hash is the FNV-1a hash of a text.
func Hash(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails
	return h.Sum64()
}

// NewRandom is the stream of one subsystem of a simulation. Streams of different names are independent, so that one
// more of them changes no other.
func NewRandom(seed uint64, stream string) *Random {
	return &Random{SplitMix(seed).Uint64() ^ Hash(stream)}
}

// SplitMix is the stream whose state is seed, as other programs begin it.
func SplitMix(seed uint64) *Random { return &Random{seed} }

// Uint64 is 64 random bits.
func (r *Random) Uint64() uint64 {
	r.state += 0x9E3779B97F4A7C15
	return stat.Mix(r.state)
}

// Float64 is uniform in [0, 1).
func (r *Random) Float64() float64 { return float64(r.Uint64()>>11) / (1 << 53) }

// IntN is uniform in [0, n); n must be positive.
func (r *Random) IntN(n int) int { return int(r.Float64() * float64(n)) }

// Exponential has mean 1.
func (r *Random) Exponential() float64 { return -math.Log(1 - r.Float64()) }

// Normal has mean 0 and variance 1 (Box and Muller, 1958; one of the pair).
func (r *Random) Normal() float64 {
	return math.Sqrt(2*r.Exponential()) * math.Cos(2*math.Pi*r.Float64())
}
