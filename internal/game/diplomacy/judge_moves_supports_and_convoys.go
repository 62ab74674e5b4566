package diplomacy

// judge answers for the unit that starts at a province as far as the answers so far allow.
func (mv *movement) judge(at Province) verdict {
	if mv.orders[at].Verb == Move {
		return mv.judgeMove(at)
	}
	return mv.judgeSupport(at)
}

// bounds are what a strength is at least and at most.
type bounds struct{ lo, hi int }

// judgeMove compares the attack with the defence and with every other attack on the same province.
func (mv *movement) judgeMove(at Province) verdict {
	if mv.path[at] == no {
		return no
	}
	attack := mv.attack(at)
	defence := mv.defence(at)
	if attack.hi <= defence.lo {
		return no
	}
	won := attack.lo > defence.hi
	for other := mv.movers[mv.dest[at]]; other != noProvince; other = mv.nextMover[other] {
		if other == at {
			continue
		}
		prevent := mv.prevent(other)
		if attack.hi <= prevent.lo {
			return no
		}
		won = won && attack.lo > prevent.hi
	}
	if won && mv.path[at] == yes {
		return yes
	}
	return open
}

// headToHead reports whether a moving unit and the unit where it goes try to change places over land.
func (mv *movement) headToHead(at Province) bool {
	to := mv.dest[at]
	return mv.s.occupied.Has(to) && mv.orders[to].Verb == Move && mv.dest[to] == at && !mv.via[at] && !mv.via[to]
}

// attack is the strength with which a unit moves. Against a unit that stays, no power counts that owns it: nobody
// dislodges or helps to dislodge a unit of his own.
func (mv *movement) attack(at Province) bounds {
	to := mv.dest[at]
	free := bounds{0, 0}
	defended := mv.s.occupied.Has(to)
	leaves := no
	if defended && mv.orders[to].Verb == Move && !mv.headToHead(at) {
		leaves = mv.fate[to]
	}
	if !defended || leaves != no {
		free = mv.strength(at, NoPower)
	}
	if !defended || leaves == yes {
		return mv.ifCarried(at, free)
	}
	var held bounds
	if owner := mv.s.units[to].Power; owner != mv.s.units[at].Power {
		held = mv.strength(at, owner)
	}
	if leaves == open {
		held.hi = free.hi
	}
	return mv.ifCarried(at, held)
}

// ifCarried lowers a strength to nothing if the convoy may fail.
func (mv *movement) ifCarried(at Province, b bounds) bounds {
	switch mv.path[at] {
	case open:
		b.lo = 0
	case no:
		b = bounds{}
	}
	return b
}

// defence is what a move has to overcome where it goes: the strength of the counter-attack in a head-to-head battle,
// else of the unit that stays.
func (mv *movement) defence(at Province) bounds {
	to := mv.dest[at]
	switch {
	case !mv.s.occupied.Has(to):
		return bounds{}
	case mv.orders[to].Verb != Move:
		return mv.strength(to, NoPower)
	case mv.headToHead(at):
		return mv.strength(to, NoPower)
	}
	switch mv.fate[to] {
	case yes:
		return bounds{}
	case no:
		return bounds{1, 1}
	}
	return bounds{0, 1}
}

// prevent is the strength with which a move keeps others out of the province where it goes. A unit that loses a
// head-to-head battle keeps nobody out of the winner's province.
func (mv *movement) prevent(at Province) bounds {
	b := mv.ifCarried(at, mv.strength(at, NoPower))
	if mv.headToHead(at) {
		switch mv.fate[mv.dest[at]] {
		case yes:
			return bounds{}
		case open:
			b.lo = 0
		}
	}
	return b
}

// strength is a unit and the supports for what it does, without those of one power.
func (mv *movement) strength(at Province, without Power) bounds {
	b := bounds{1, 1}
	for s := mv.supporters[at]; s != noProvince; s = mv.nextSupport[s] {
		if mv.fate[s] == no || mv.s.units[s].Power == without {
			continue
		}
		b.hi++
		if mv.fate[s] == yes {
			b.lo++
		}
	}
	return b
}

// judgeSupport looks for an attack that cuts the support. One from the province that the support is against does so
// only by dislodging the unit; one of the unit's own power never does.
func (mv *movement) judgeSupport(at Province) verdict {
	against := mv.against(at)
	answer := yes
	for by := mv.movers[at]; by != noProvince; by = mv.nextMover[by] {
		if mv.s.units[by].Power == mv.s.units[at].Power {
			continue
		}
		cuts := mv.path[by]
		if by == against {
			cuts = mv.fate[by]
		}
		switch cuts {
		case yes:
			return no
		case open:
			answer = open
		}
	}
	return answer
}

// against is the province into which a unit supports a move, if it does.
func (mv *movement) against(at Province) Province {
	if dest := mv.orders[at].Dest; dest != NoPlace {
		return mv.m.provOf[dest]
	}
	return noProvince
}

// judgePath asks whether fleets that stay join the coasts, and whether they would if all did that still may.
func (mv *movement) judgePath(at Province) verdict {
	var sure, maybe ProvinceSet
	for fleet := range mv.convoyers[at].All() {
		switch mv.dislodged(fleet) {
		case no:
			sure.Add(fleet)
			maybe.Add(fleet)
		case open:
			maybe.Add(fleet)
		}
	}
	switch to := mv.dest[at]; {
	case mv.m.chained(at, to, sure):
		return yes
	case !mv.m.chained(at, to, maybe):
		return no
	}
	return open
}

// dislodged asks whether a unit that does not move is driven out.
func (mv *movement) dislodged(at Province) verdict {
	answer := no
	for by := mv.movers[at]; by != noProvince; by = mv.nextMover[by] {
		switch mv.fate[by] {
		case yes:
			return yes
		case open:
			answer = open
		}
	}
	return answer
}
