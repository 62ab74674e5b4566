package bot

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/millrace/millrace/internal/game/diplomacy"
)

// choice is something to choose, with what it is worth.
type choice struct {
	value int
	place diplomacy.Place
}

const (
	playAlternative = 50  // in so many cases of a hundred the next best is considered at all
	gapModifier     = 500 // how fast a gap in value, in hundredths of the better one, rules the next best out
)

// draw takes the best option, or sometimes the next best, and so on: the less likely, the larger the gap.
// It sorts the options, best first.
func draw(options []choice, rng *rand.Rand) choice {
	slices.SortStableFunc(options, func(a, b choice) int { return cmp.Compare(b.value, a.value) })
	at := 0
	for at+1 < len(options) {
		here, next := options[at].value, options[at+1].value
		stay := 0
		if here > 0 {
			stay = (here - next) * gapModifier / here
		}
		if rng.IntN(100) >= playAlternative || rng.IntN(100) < stay {
			break
		}
		at++
	}
	return options[at]
}
