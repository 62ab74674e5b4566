package diplomacy

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
