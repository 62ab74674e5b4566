package diplomacy

import "iter"

// A State is a position of a game: the phase, the units, who owns which centre. It is a plain value: assigning it
// copies it, == compares it, and no copy shares anything with another. Make one with NewGame, NewState or
// UnmarshalState; the zero State is not a position.
type State struct {
	m         *Map
	phase     Phase
	occupied  ProvinceSet             // provinces with a unit that is not dislodged
	uprooted  ProvinceSet             // provinces with a unit that must retreat
	units     [MaxProvinces]Unit      // by province
	dislodged [MaxProvinces]Dislodged // by province
	owner     [MaxProvinces]Power     // of the centre
	visitor   [MaxProvinces]Power     // whose unit was there last
}

// Dislodged is a unit that must retreat or disband.
type Dislodged struct {
	Unit
	places uint32 // where it may go, as bits over Map.Neighbors of its place
}

// NewGame is the start of a game on m.
func NewGame(m *Map) *State {
	s := emptyState(m, m.begin)
	for _, u := range m.start {
		s.put(u)
	}
	for p := range m.powers {
		for at := range m.homes[p].All() {
			s.owner[at] = Power(p)
		}
	}
	return s
}

func emptyState(m *Map, phase Phase) *State {
	s := &State{m: m, phase: phase}
	for i := range s.owner {
		s.owner[i], s.visitor[i] = NoPower, NoPower
	}
	return s
}

// put stands a unit on the board; the caller has checked that the province is free.
func (s *State) put(u Unit) {
	at := s.m.provOf[u.Place]
	s.units[at] = u
	s.occupied.Add(at)
	s.visitor[at] = u.Power
}

func (s *State) lift(at Province) {
	s.units[at] = Unit{}
	s.occupied.Remove(at)
}

// Map is the board that the game is played on.
func (s *State) Map() *Map { return s.m }

// Phase is what is to be played next.
func (s *State) Phase() Phase { return s.phase }

// Clone is a copy of its own.
func (s *State) Clone() *State {
	c := *s
	return &c
}

// Done reports whether the game is over.
func (s *State) Done() bool { return s.phase.Type == Completed }

// Winner is the power that has won by its centres, or NoPower while nobody has.
func (s *State) Winner() Power {
	count := s.centerCounts()
	best, second := NoPower, 0
	for p := range s.m.powers {
		switch n := count[p]; {
		case best == NoPower || n > count[best]:
			if best != NoPower {
				second = count[best]
			}
			best = Power(p)
		case n > second:
			second = n
		}
	}
	if count[best] < s.m.victory || count[best] == second {
		return NoPower
	}
	return best
}

func (s *State) centerCounts() (count [64]int) {
	for at := range s.m.centers.All() {
		if p := s.owner[at]; p != NoPower {
			count[p]++
		}
	}
	return count
}

// Unit is the unit in a province that is not dislodged; false if there is none.
func (s *State) Unit(at Province) (Unit, bool) { return s.units[at], s.occupied.Has(at) }

// AllUnits yields every unit that is not dislodged, in map order of the provinces.
func (s *State) AllUnits() iter.Seq[Unit] {
	return func(yield func(Unit) bool) {
		for at := range s.occupied.All() {
			if !yield(s.units[at]) {
				return
			}
		}
	}
}

// Units yields the units of p that are not dislodged in the order of their text: armies first, then map order.
func (s *State) Units(p Power) iter.Seq[Unit] {
	return func(yield func(Unit) bool) {
		for kind := Army; kind <= Fleet; kind++ {
			for at := range s.occupied.All() {
				if u := s.units[at]; u.Power == p && u.Kind == kind && !yield(u) {
					return
				}
			}
		}
	}
}

// UnitCount counts the units of p, dislodged ones included.
func (s *State) UnitCount(p Power) int {
	n := 0
	for at := range s.occupied.All() {
		if s.units[at].Power == p {
			n++
		}
	}
	for at := range s.uprooted.All() {
		if s.dislodged[at].Power == p {
			n++
		}
	}
	return n
}

// Dislodged yields the units of p that must retreat or disband, in the order of their text.
func (s *State) Dislodged(p Power) iter.Seq[Dislodged] {
	return func(yield func(Dislodged) bool) {
		for kind := Army; kind <= Fleet; kind++ {
			for at := range s.uprooted.All() {
				if d := s.dislodged[at]; d.Power == p && d.Kind == kind && !yield(d) {
					return
				}
			}
		}
	}
}

// RetreatPlaces yields where a dislodged unit may go, in map order.
func (s *State) RetreatPlaces(d Dislodged) iter.Seq[Place] {
	return func(yield func(Place) bool) {
		for i, at := range s.m.moves[d.Kind][d.Place] {
			if d.places&(1<<i) != 0 && !yield(at) {
				return
			}
		}
	}
}

// Owner is the power that owns the centre in a province, or NoPower.
func (s *State) Owner(at Province) Power { return s.owner[at] }

// LastVisitor is the power whose unit was in a province last, or NoPower.
func (s *State) LastVisitor(at Province) Power { return s.visitor[at] }

// Centers yields the centres that p owns, in map order; NoPower owns the neutral ones.
func (s *State) Centers(p Power) iter.Seq[Province] {
	return func(yield func(Province) bool) {
		for at := range s.m.centers.All() {
			if s.owner[at] == p && !yield(at) {
				return
			}
		}
	}
}

// CenterCount counts the centres that p owns.
func (s *State) CenterCount(p Power) int {
	n := 0
	for range s.Centers(p) {
		n++
	}
	return n
}

// Eliminated reports whether p has neither a unit nor a centre left.
func (s *State) Eliminated(p Power) bool { return s.CenterCount(p) == 0 && s.UnitCount(p) == 0 }

// FreeHomes yields the home centres in which p may build: its own, still owned, and empty.
func (s *State) FreeHomes(p Power) iter.Seq[Province] {
	return func(yield func(Province) bool) {
		for at := range s.m.homes[p].All() {
			if s.owner[at] == p && !s.occupied.Has(at) && !yield(at) {
				return
			}
		}
	}
}

// Adjustment is how many units p may build (positive) or must remove (negative) in an adjustment phase.
// Builds are bounded by the free home centres.
func (s *State) Adjustment(p Power) int {
	n := s.CenterCount(p) - s.UnitCount(p)
	if n <= 0 {
		return n
	}
	free := 0
	for range s.FreeHomes(p) {
		free++
	}
	return min(n, free)
}

// MustAct reports whether p has anything to decide in this phase.
func (s *State) MustAct(p Power) bool {
	switch s.phase.Type {
	case Movement:
		for range s.Units(p) {
			return true
		}
	case Retreats:
		for range s.Dislodged(p) {
			return true
		}
	case Adjustment:
		return s.Adjustment(p) != 0
	}
	return false
}
