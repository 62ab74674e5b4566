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
