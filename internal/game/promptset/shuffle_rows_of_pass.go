package promptset

import (
	"math/bits"

	"github.com/millrace/millrace/internal/kit/stat"
)

// shuffled is where index at of n comes to in the permutation that a seed names. It takes no memory, whatever n is: a
// Feistel network permutes the next larger power of four, and what falls outside of n is permuted again until it does
// not (cycle walking: Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002).
func shuffled(at, n, seed uint64) uint64 {
	half := (bits.Len64(n-1) + 1) / 2
	mask := uint64(1)<<half - 1
	for {
		left, right := at>>half, at&mask
		for round := range uint64(6) {
			left, right = right, left^mix(right, seed, round)&mask
		}
		if at = left<<half | right; at < n {
			return at
		}
	}
}

func mix(x, seed, round uint64) uint64 {
	return stat.Mix(x ^ seed*0x9E3779B97F4A7C15 ^ (round+1)*0xD1B54A32D192ED03)
}
