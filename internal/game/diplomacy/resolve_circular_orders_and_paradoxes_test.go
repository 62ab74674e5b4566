package diplomacy

import (
	"math/rand/v2"
	"testing"
)

// crowd is a random position full of fleets and coastal armies of a few powers, which makes convoys and paradoxes
// likely.
func crowd(r *rand.Rand) *State {
	m := Standard()
	s := emptyState(m, m.begin)
	for at := range m.ProvinceCount() {
		p := Province(at)
		if r.IntN(10) < 4 {
			continue
		}
		u := Unit{Kind: Army, Power: Power(r.IntN(3)), Place: Place(p)}
		if m.Terrain(p) == Sea || m.Terrain(p) == Coastal && r.IntN(3) == 0 {
			u.Kind = Fleet
			if c := m.Coasts(p); len(c) > 0 {
				u.Place = c[r.IntN(len(c))]
			}
		}
		s.put(u)
	}
	return s
}

// crowdOrders makes armies sail, fleets carry them, and the units that they land on support attacks on those fleets.
func crowdOrders(r *rand.Rand, s *State, options []Options) [][]Order {
	plan := map[Province]Order{}
	sites := map[Province]Site{}
	for _, o := range options {
		for _, site := range o.Sites {
			at := s.m.Province(site.Unit.Place)
			sites[at] = site
			plan[at] = site.Orders[r.IntN(len(site.Orders))]
		}
	}
	for range 8 {
		planConvoy(r, s, sites, plan)
	}
	orders := make([][]Order, len(options))
	for at, o := range plan {
		p := s.units[at].Power
		orders[p] = append(orders[p], o)
	}
	return orders
}

// planConvoy picks a convoy over one fleet, and lets the unit that it lands on help to drive that fleet out.
func planConvoy(r *rand.Rand, s *State, sites map[Province]Site, plan map[Province]Order) {
	fleets := s.fleetsAtSea()
	var convoys []Order
	var seas []Province
	for fleet := range fleets.All() {
		for _, o := range sites[fleet].Orders {
			if o.Verb == Convoy {
				convoys, seas = append(convoys, o), append(seas, fleet)
			}
		}
	}
	if len(convoys) == 0 {
		return
	}
	i := r.IntN(len(convoys))
	convoy, sea := convoys[i], seas[i]
	army, land := s.m.Province(convoy.Aux), s.m.Province(convoy.Dest)
	plan[sea] = convoy
	plan[army] = s.units[army].MoveVia(convoy.Dest)
	for _, o := range sites[land].Orders {
		if o.Verb == Support && o.Dest != NoPlace && s.m.Province(o.Dest) == sea && s.m.Province(o.Aux) != army {
			plan[land] = o
			attacker := s.m.Province(o.Aux)
			plan[attacker] = s.units[attacker].Move(o.Dest)
			return
		}
	}
}

// TestAnswersFollowFromEachOther checks the outcome against the rules, however it was found: every answer is what the
// rules say, given all the other answers. Only armies whose convoys were given up as paradoxical may differ.
func TestAnswersFollowFromEachOther(t *testing.T) {
	t.Parallel()
	m := Standard()
	g, a := NewGenerator(m), NewAdjudicator(m)
	paradoxes, circles := 0, 0
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 13))
		s := crowd(r)
		orders := crowdOrders(r, s, g.Options(s))
		checkPosition(t, s, a.Process(s, orders))
		mv := &a.movement
		paradoxes += mv.solver.disrupted.Len()
		for at := range s.occupied.All() {
			if mv.orders[at].Verb != Move && mv.orders[at].Verb != Support || mv.result[at] != 0 {
				continue
			}
			if got := mv.judge(at); got != mv.fate[at] {
				t.Errorf("seed %d: %s: %d, but from the other answers follows %d", seed, m.OrderString(mv.orders[at]),
					mv.fate[at], got)
			}
			if mv.via[at] && !mv.solver.disrupted.Has(at) && mv.judgePath(at) != mv.path[at] {
				t.Errorf("seed %d: %s: the convoy's answer does not follow", seed, m.OrderString(mv.orders[at]))
			}
			circles += mv.onCircle(at)
		}
	}
	t.Logf("%d disrupted convoys, %d units in circular movement", paradoxes, circles)
	if paradoxes == 0 || circles == 0 {
		t.Error("no paradox or no circular movement was tried")
	}
}

// onCircle is 1 if a unit moves in a circle of units that follow each other.
func (mv *movement) onCircle(at Province) int {
	next := at
	for range MaxProvinces {
		if !mv.leaves(next) {
			return 0
		}
		next = mv.dest[next]
		if next == at {
			return 1
		}
		if !mv.s.occupied.Has(next) {
			return 0
		}
	}
	return 0
}

// BenchmarkFullSeas is the worst case of the standard board: a fleet in every sea and an army on every coast.
func BenchmarkFullSeas(b *testing.B) {
	m := Standard()
	s := emptyState(m, m.begin)
	for at := range m.ProvinceCount() {
		switch m.Terrain(Province(at)) {
		case Sea:
			s.put(Unit{Kind: Fleet, Power: Power(at % 7), Place: Place(at)})
		case Coastal:
			s.put(Unit{Kind: Army, Power: Power(at % 7), Place: Place(at)})
		}
	}
	g := NewGenerator(m)
	b.ReportAllocs()
	for b.Loop() {
		g.Options(s)
	}
}
