package bot

import (
	"math/rand/v2"

	"github.com/millrace/millrace/internal/game/diplomacy"
)

// holdBot gives no orders at all but the removals it is forced to, and leaves even those to the rules.
type holdBot struct{}

func (holdBot) Orders(*diplomacy.State, diplomacy.Options, *rand.Rand) []diplomacy.Order { return nil }

// randomBot draws each unit's order uniformly. Most legal orders are supports and convoys, so its units barely move.
type randomBot struct{}

func (randomBot) Orders(_ *diplomacy.State, o diplomacy.Options, rng *rand.Rand) []diplomacy.Order {
	orders := make([]diplomacy.Order, 0, o.Count)
	for _, i := range drawSites(o, rng) {
		orders = append(orders, pick(o.Sites[i].Orders, rng))
	}
	return orders
}

// chaosBot draws each unit's order uniformly from its moves without convoy, and from its retreats. It always builds.
type chaosBot struct{}

func (chaosBot) Orders(_ *diplomacy.State, o diplomacy.Options, rng *rand.Rand) []diplomacy.Order {
	orders := make([]diplomacy.Order, 0, o.Count)
	for _, i := range drawSites(o, rng) {
		orders = append(orders, pick(goes(o.Sites[i].Orders), rng))
	}
	return orders
}

// goes is the part of a site's orders that take the unit elsewhere; all of them if none does. Moves and retreats lie
// together in the list.
func goes(orders []diplomacy.Order) []diplomacy.Order {
	first, last := 0, 0
	for i, o := range orders {
		if o.Verb == diplomacy.Retreat || o.Verb == diplomacy.Move && !o.Via {
			if last == 0 {
				first = i
			}
			last = i + 1
		}
	}
	if last == 0 {
		return orders
	}
	return orders[first:last]
}

// drawSites is which sites get an order: all, or in adjustments Count of them at random.
func drawSites(o diplomacy.Options, rng *rand.Rand) []int {
	if o.Count >= len(o.Sites) {
		all := make([]int, len(o.Sites))
		for i := range all {
			all[i] = i
		}
		return all
	}
	return rng.Perm(len(o.Sites))[:o.Count]
}

func pick(orders []diplomacy.Order, rng *rand.Rand) diplomacy.Order {
	return orders[rng.IntN(len(orders))]
}
