package diplomacy

// playMovement moves the units and finds out who must retreat, and where to.
func (a *Adjudicator) playMovement(s *State, orders [][]Order) {
	mv := &a.movement
	mv.load(a.m, s, orders)
	mv.decide()
	next := &a.out.Next
	for at := range s.occupied.All() {
		if mv.leaves(at) {
			next.lift(at)
		}
	}
	for at := range s.occupied.All() {
		if mv.leaves(at) {
			a.arrive(mv, at)
		}
	}
	contested := mv.contested(next)
	for at := range next.uprooted.All() {
		a.findRetreats(mv, at, &contested)
	}
	for at := range s.occupied.All() {
		a.report(s.units[at], mv.orders[at], mv.outcome(at))
	}
}

// leaves reports whether the unit that started in a province has moved.
func (mv *movement) leaves(at Province) bool {
	return mv.orders[at].Verb == Move && mv.fate[at] == yes
}

// arrive puts a unit where it has moved, and the unit that it finds there among the dislodged.
func (a *Adjudicator) arrive(mv *movement, from Province) {
	next, to := &a.out.Next, mv.dest[from]
	if mv.s.occupied.Has(to) && !mv.leaves(to) {
		next.dislodged[to] = Dislodged{Unit: mv.s.units[to]}
		next.uprooted.Add(to)
	}
	u := mv.s.units[from]
	u.Place = mv.orders[from].Dest
	next.put(u)
}

// contested are the provinces that units left empty by standing each other off.
func (mv *movement) contested(next *State) ProvinceSet {
	var set ProvinceSet
	for at := range mv.s.occupied.All() {
		if mv.orders[at].Verb == Move && mv.fate[at] == no && mv.prevent(at).hi > 0 {
			set.Add(mv.dest[at])
		}
	}
	return set.minus(&next.occupied)
}

// findRetreats notes where a dislodged unit may go: any empty place next to it that nobody was stood off from, but not
// where its attacker came from over land. A unit with nowhere to go is destroyed.
func (a *Adjudicator) findRetreats(mv *movement, at Province, contested *ProvinceSet) {
	next := &a.out.Next
	barred := noProvince
	for by := mv.movers[at]; by != noProvince; by = mv.nextMover[by] {
		if mv.fate[by] == yes && !mv.via[by] {
			barred = by
		}
	}
	d := &next.dislodged[at]
	for i, place := range a.m.moves[d.Kind][d.Place] {
		to := a.m.provOf[place]
		if to != barred && !next.occupied.Has(to) && !contested.Has(to) {
			d.places |= 1 << i
		}
	}
	if d.places == 0 {
		a.out.Destroyed = append(a.out.Destroyed, d.Unit)
		next.removeDislodged(at)
	}
}

// removeDislodged takes a dislodged unit off the list.
func (s *State) removeDislodged(at Province) {
	s.dislodged[at] = Dislodged{}
	s.uprooted.Remove(at)
}

// outcome is the result of a unit's order in the words of the python package.
func (mv *movement) outcome(at Province) Result {
	r := mv.result[at]
	if r == 0 {
		switch mv.orders[at].Verb {
		case Move:
			r = mv.moveOutcome(at)
		case Support:
			r = mv.supportOutcome(at)
		case Convoy:
			r = mv.convoyOutcome(at)
		}
	}
	if !mv.leaves(at) && mv.dislodged(at) == yes {
		r |= Dislodge
	}
	return r
}

func (mv *movement) moveOutcome(at Province) Result {
	switch {
	case mv.fate[at] == yes:
		return 0
	case mv.path[at] == no:
		return NoConvoy
	}
	return Bounce
}

// supportOutcome tells, besides whether the support was cut, whether it could not count: for a convoy that failed, or
// because with it a unit of the supporting power would have been dislodged.
func (mv *movement) supportOutcome(at Province) Result {
	target, to := mv.m.provOf[mv.orders[at].Aux], mv.against(at)
	switch {
	case mv.fate[at] == no:
		return Cut
	case to == noProvince:
		return 0
	case mv.path[target] == no:
		return NoConvoy
	case !mv.s.occupied.Has(to) || mv.s.units[to].Power != mv.s.units[at].Power || mv.leaves(to):
		return 0
	case mv.overpowers(target):
		return Void
	}
	return 0
}

// overpowers reports whether a move would succeed if supports against the supporter's own unit counted.
func (mv *movement) overpowers(at Province) bool {
	full := mv.strength(at, NoPower).lo
	if full <= mv.defence(at).hi {
		return false
	}
	for other := mv.movers[mv.dest[at]]; other != noProvince; other = mv.nextMover[other] {
		if other != at && full <= mv.prevent(other).hi {
			return false
		}
	}
	return true
}

// convoyOutcome reports whether the fleet was part of a convoy that held.
func (mv *movement) convoyOutcome(at Province) Result {
	army := mv.m.provOf[mv.orders[at].Aux]
	switch {
	case mv.solver.disrupted.Has(army) && mv.dislodged(at) == no:
		return Disrupted
	case !mv.via[army] || mv.path[army] == no:
		return NoConvoy
	case !mv.m.chainNeeds(at, army, mv.dest[army], mv.convoyers[army]):
		return NoConvoy
	}
	return 0
}
