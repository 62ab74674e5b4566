package diplomacy

// verdict is what is known of a decision.
type verdict uint8

const (
	open verdict = iota
	yes
	no
)

// movement decides one movement phase. Every moving unit has the question whether it gets there, every supporting unit
// whether its support counts, and every convoyed army whether its convoy holds. The answers depend on each other, so
// strengths are kept as bounds: an answer is given as soon as the bounds leave no other, and rounds go on until
// nothing changes. Answers only ever go from open to yes or no, which makes the result independent of any order. What
// then is still open depends on itself: resolve_circular_orders_and_paradoxes.go decides that.
//
// Units are known by the province they start in; all arrays are indexed by it.
type movement struct {
	m *Map
	s *State

	orders [MaxProvinces]Order  // as adjudicated: a void order has become a hold
	result [MaxProvinces]Result // Void, as far as known from the orders alone
	dest   [MaxProvinces]Province
	via    [MaxProvinces]bool // moves by convoy

	fate [MaxProvinces]verdict // of a move: it succeeds; of a support: it counts
	path [MaxProvinces]verdict // of a convoyed move: its convoy holds

	// Lists of units through the next arrays, ended by noProvince.
	movers, nextMover       [MaxProvinces]Province // moving to a province
	supporters, nextSupport [MaxProvinces]Province // supporting what a unit does
	convoyers               [MaxProvinces]ProvinceSet

	open   []Province // units with an open question
	solver solver
}

// load takes over a position and the orders of its powers.
func (mv *movement) load(m *Map, s *State, orders [][]Order) {
	mv.m, mv.s = m, s
	for at := range s.occupied.All() {
		mv.orders[at] = Order{}
		mv.result[at], mv.via[at] = 0, false
		mv.fate[at], mv.path[at] = no, yes
		mv.supporters[at] = noProvince
		mv.convoyers[at] = ProvinceSet{}
	}
	for i := range m.provinces {
		mv.movers[i] = noProvince
	}
	for p, list := range orders {
		for _, o := range list {
			mv.take(Power(p), o)
		}
	}
	for at := range s.occupied.All() {
		if o := &mv.orders[at]; o.Verb == 0 {
			*o = s.units[at].Hold()
		}
	}
	mv.open = mv.open[:0]
	mv.solver.disrupted = ProvinceSet{}
	mv.match()
}

// take notes an order. One that the rules forbid counts as not given; a second, different order voids both.
func (mv *movement) take(p Power, o Order) {
	o = mv.s.complete(o)
	u := mv.s.unitAt(o.Place)
	if u.Kind == 0 || u.Power != p {
		return
	}
	at := mv.m.provOf[u.Place]
	given := &mv.orders[at]
	switch legal := mv.s.movementFault(p, o) == 0; {
	case legal && given.Verb == 0:
		*given = o
		mv.result[at] = 0
	case legal && *given != o:
		*given = u.Hold()
		mv.result[at] = Void
	case !legal && given.Verb == 0:
		mv.result[at] = Void
	}
}

// match links every order with the orders that it is about.
func (mv *movement) match() {
	for at := range mv.s.occupied.All() {
		o := &mv.orders[at]
		if o.Verb == Move {
			mv.addMover(at, o)
		}
	}
	for at := range mv.s.occupied.All() {
		switch o := &mv.orders[at]; o.Verb {
		case Support:
			mv.addSupport(at, o)
		case Convoy:
			mv.addConvoyer(at, o)
		}
	}
	for at := range mv.s.occupied.All() {
		if mv.orders[at].Verb == Move {
			mv.choosePath(at)
		}
	}
}

func (mv *movement) addMover(at Province, o *Order) {
	to := mv.m.provOf[o.Dest]
	mv.dest[at], mv.fate[at] = to, open
	mv.nextMover[at] = mv.movers[to]
	mv.movers[to] = at
	mv.open = append(mv.open, at)
}

// addSupport links a support with the unit that does what is supported.
func (mv *movement) addSupport(at Province, o *Order) {
	target := mv.m.provOf[o.Aux]
	t := &mv.orders[target]
	matches := t.Verb != Move
	if o.Dest != NoPlace {
		to := mv.m.provOf[o.Dest]
		matches = t.Verb == Move && mv.dest[target] == to && (Place(to) == o.Dest || t.Dest == o.Dest)
	}
	if !matches {
		mv.result[at] |= Void
		return
	}
	mv.fate[at] = open
	mv.nextSupport[at] = mv.supporters[target]
	mv.supporters[target] = at
	mv.open = append(mv.open, at)
}

func (mv *movement) addConvoyer(at Province, o *Order) {
	army := mv.m.provOf[o.Aux]
	if mv.orders[army].Verb != Move || mv.orders[army].Dest != o.Dest {
		mv.result[at] |= Void
		return
	}
	mv.convoyers[army].Add(at)
}

// choosePath decides whether a move goes by convoy. Next door an army walks, unless the fleets to carry it are there
// and it is to be carried: its order says so, or a fleet of its own power is ordered to.
func (mv *movement) choosePath(at Province) {
	o, to := &mv.orders[at], mv.dest[at]
	fleets := &mv.convoyers[at]
	walks := mv.m.reach[o.Kind][o.Place].Has(to)
	if walks && (fleets.Empty() || !mv.m.chained(at, to, *fleets)) {
		return
	}
	if walks && !o.Via && !mv.ownConvoy(at) {
		return
	}
	mv.via[at], mv.path[at] = true, open
}

// ownConvoy reports whether a fleet of the army's own power is ordered to carry it, which shows the intent. That
// another chain of fleets in the end carries it does not matter.
func (mv *movement) ownConvoy(at Province) bool {
	for fleet := range mv.convoyers[at].All() {
		if mv.s.units[fleet].Power == mv.s.units[at].Power {
			return true
		}
	}
	return false
}

// decide answers every question.
func (mv *movement) decide() {
	for {
		mv.propagateAll()
		if len(mv.open) == 0 {
			return
		}
		mv.untie()
	}
}

// propagateAll answers what follows from what is known, until nothing more does.
func (mv *movement) propagateAll() {
	for changed := true; changed; {
		changed = false
		left := mv.open[:0]
		for _, at := range mv.open {
			if mv.path[at] == open {
				mv.path[at] = mv.judgePath(at)
				changed = changed || mv.path[at] != open
			}
			if mv.fate[at] == open {
				mv.fate[at] = mv.judge(at)
				changed = changed || mv.fate[at] != open
			}
			if mv.fate[at] == open || mv.path[at] == open {
				left = append(left, at)
			}
		}
		mv.open = left
	}
}
