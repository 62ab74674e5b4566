package bot

import (
	"math/rand/v2"

	"github.com/millrace/millrace/internal/game/diplomacy"
)

// dumbBot plays as DumbBot of David Norman (2003), written from its description, daide.org.uk/s0003.html.
//
// It gives every place a value: how much there is to win or to hold near it, spread over the board in rings
// (dumb_bot_province_values.go), plus what its own units next to the place are worth and minus what those of its
// strongest rival are. Units then go, in random order, to the best place next to them, now and then to the second best;
// where an own unit is or goes already, they support it. It never convoys.
type dumbBot struct {
	values values
	plan   plan
}

func newDumbBot(m *diplomacy.Map) *dumbBot { return &dumbBot{values: newValues(m)} }

func (b *dumbBot) Orders(s *diplomacy.State, o diplomacy.Options, rng *rand.Rand) []diplomacy.Order {
	b.values.assess(s, o.Power)
	switch s.Phase().Type {
	case diplomacy.Movement:
		return b.plan.movement(s, o, &b.values, rng)
	case diplomacy.Retreats:
		return b.retreats(s, o, rng)
	case diplomacy.Adjustment:
		if o.MayWaive {
			return b.builds(o, rng)
		}
		return b.removals(o)
	}
	return nil
}

// retreats sends each unit to the best place that no other own unit retreats to.
func (b *dumbBot) retreats(s *diplomacy.State, o diplomacy.Options, rng *rand.Rand) []diplomacy.Order {
	orders := make([]diplomacy.Order, 0, o.Count)
	var taken diplomacy.ProvinceSet
	for _, i := range rng.Perm(len(o.Sites)) {
		var options []choice
		for _, order := range o.Sites[i].Orders {
			if order.Verb == diplomacy.Retreat && !taken.Has(s.Map().Province(order.Dest)) {
				options = append(options, choice{b.values.at(order.Kind, order.Dest), order.Dest})
			}
		}
		if len(options) == 0 {
			orders = append(orders, o.Sites[i].Unit.Disband())
			continue
		}
		dest := draw(options, rng).place
		taken.Add(s.Map().Province(dest))
		orders = append(orders, o.Sites[i].Unit.Retreat(dest))
	}
	return orders
}

// builds takes the best home centre again and again, with the kind of unit that is worth most there.
func (b *dumbBot) builds(o diplomacy.Options, rng *rand.Rand) []diplomacy.Order {
	sites := make([]diplomacy.Site, len(o.Sites))
	copy(sites, o.Sites)
	var orders []diplomacy.Order
	for len(orders) < o.Count && len(sites) > 0 {
		options := make([]choice, len(sites))
		for i := range sites {
			best := b.bestBuild(&sites[i])
			options[i] = choice{b.values.at(best.Kind, best.Place), diplomacy.Place(i)}
		}
		i := int(draw(options, rng).place)
		orders = append(orders, b.bestBuild(&sites[i]))
		sites = append(sites[:i], sites[i+1:]...)
	}
	return orders
}

func (b *dumbBot) bestBuild(site *diplomacy.Site) diplomacy.Order {
	best := site.Orders[0]
	for _, o := range site.Orders[1:] {
		if b.values.at(o.Kind, o.Place) > b.values.at(best.Kind, best.Place) {
			best = o
		}
	}
	return best
}

// removals gives up the units that stand on the least valuable places.
func (b *dumbBot) removals(o diplomacy.Options) []diplomacy.Order {
	var orders []diplomacy.Order
	var gone diplomacy.ProvinceSet
	for len(orders) < o.Count {
		worst, found := diplomacy.Unit{}, false
		for i := range o.Sites {
			u := o.Sites[i].Unit
			if gone.Has(b.values.m.Province(u.Place)) {
				continue
			}
			if !found || b.values.at(u.Kind, u.Place) < b.values.at(worst.Kind, worst.Place) {
				worst, found = u, true
			}
		}
		gone.Add(b.values.m.Province(worst.Place))
		orders = append(orders, worst.Disband())
	}
	return orders
}
