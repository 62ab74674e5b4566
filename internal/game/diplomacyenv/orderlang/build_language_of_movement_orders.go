package orderlang

import (
	"slices"

	"github.com/millrace/millrace/internal/game/diplomacy"
)

// allSites is one line for every site, as in movement and retreats.
func allSites(m *diplomacy.Map, o diplomacy.Options) expr {
	lines := make([]expr, len(o.Sites))
	for i := range o.Sites {
		lines[i] = site(m, &o.Sites[i])
	}
	return seq(lines...)
}

// site is the line of one unit: its orders, with what they share written once.
func site(m *diplomacy.Map, s *diplomacy.Site) expr {
	var f factors
	for _, order := range s.Orders {
		f.add(order)
	}
	return seq(literal(m.UnitString(s.Unit)+" "), alt(f.exprs(m)...), literal("\n"))
}

// factors collects a unit's orders by what they have in common.
type factors struct {
	hold, disband  bool
	moves, via     []diplomacy.Place
	retreats       []diplomacy.Place
	support, carry []second
}

// A second is another unit that is supported or convoyed, with where to.
type second struct {
	unit  diplomacy.Unit
	stays bool // supported where it stands
	dests []diplomacy.Place
}

func (f *factors) add(o diplomacy.Order) {
	switch o.Verb {
	case diplomacy.Hold:
		f.hold = true
	case diplomacy.Disband:
		f.disband = true
	case diplomacy.Move:
		if o.Via {
			f.via = append(f.via, o.Dest)
		} else {
			f.moves = append(f.moves, o.Dest)
		}
	case diplomacy.Retreat:
		f.retreats = append(f.retreats, o.Dest)
	case diplomacy.Support:
		addSecond(&f.support, o)
	case diplomacy.Convoy:
		addSecond(&f.carry, o)
	}
}

func addSecond(list *[]second, o diplomacy.Order) {
	i := slices.IndexFunc(*list, func(s second) bool { return s.unit.Place == o.Aux })
	if i < 0 {
		i = len(*list)
		*list = append(*list, second{unit: diplomacy.Unit{Kind: o.AuxKind, Place: o.Aux}})
	}
	s := &(*list)[i]
	if o.Dest == diplomacy.NoPlace {
		s.stays = true
		return
	}
	s.dests = append(s.dests, o.Dest)
}

func (f *factors) exprs(m *diplomacy.Map) []expr {
	var list []expr
	if f.hold {
		list = append(list, literal("H"))
	}
	if len(f.moves) > 0 {
		list = append(list, seq(literal("- "), places(m, f.moves)))
	}
	if len(f.via) > 0 {
		list = append(list, seq(literal("- "), places(m, f.via), literal(" VIA")))
	}
	if len(f.support) > 0 {
		list = append(list, seq(literal("S "), seconds(m, f.support)))
	}
	if len(f.carry) > 0 {
		list = append(list, seq(literal("C "), seconds(m, f.carry)))
	}
	if len(f.retreats) > 0 {
		list = append(list, seq(literal("R "), places(m, f.retreats)))
	}
	if f.disband {
		list = append(list, literal("D"))
	}
	return list
}

func places(m *diplomacy.Map, list []diplomacy.Place) expr {
	names := make([]expr, len(list))
	for i, p := range list {
		names[i] = literal(m.PlaceName(p))
	}
	return alt(names...)
}

// seconds writes units with equal destinations together: (A MUN|A PAR) - (BUR|GAS).
func seconds(m *diplomacy.Map, list []second) expr {
	var groups []expr
	for len(list) > 0 {
		first := list[0]
		var units []expr
		rest := list[:0]
		for _, s := range list {
			if s.stays == first.stays && slices.Equal(s.dests, first.dests) {
				units = append(units, literal(m.UnitString(s.unit)))
				continue
			}
			rest = append(rest, s)
		}
		list = rest
		groups = append(groups, withDests(m, alt(units...), first))
	}
	return alt(groups...)
}

func withDests(m *diplomacy.Map, units expr, s second) expr {
	if len(s.dests) == 0 {
		return units
	}
	tail := seq(literal(" - "), places(m, s.dests))
	if s.stays {
		tail = option(tail)
	}
	return seq(units, tail)
}
