package diplomacy

// A question is one open answer: whether the unit's order succeeds, or whether its convoy holds.
type question struct {
	at     Province
	convoy bool
}

// questions is a set of them.
type questions struct{ orders, convoys ProvinceSet }

func (q *questions) has(x question) bool {
	if x.convoy {
		return q.convoys.Has(x.at)
	}
	return q.orders.Has(x.at)
}

func (q *questions) add(x question) {
	if x.convoy {
		q.convoys.Add(x.at)
	} else {
		q.orders.Add(x.at)
	}
}

// solver is the memory of untie.
type solver struct {
	knot      questions
	disrupted ProvinceSet // armies whose convoys were given up
	best      answers
	solutions int
}

// answers are the answers to a knot's questions.
type answers struct{ fate, path [MaxProvinces]verdict }

// untie answers questions that depend on themselves: a smallest knot of them, which depends on nothing else that is
// open. If exactly one set of answers is consistent, it holds. Otherwise a knot without convoys is a circular
// movement, which succeeds; and one with convoys is a paradox, in which by Szykman's rule the convoyed armies in it do
// not move and have no effect.
func (mv *movement) untie() {
	sv := &mv.solver
	sv.knot = mv.findKnot()
	sv.solutions = 0
	mv.try()
	if sv.solutions > 0 && (sv.solutions == 1 || sv.knot.convoys.Empty()) {
		for at := range sv.knot.orders.All() {
			mv.fate[at] = sv.best.fate[at]
		}
		for at := range sv.knot.convoys.All() {
			mv.path[at] = sv.best.path[at]
		}
		return
	}
	mv.giveUp()
}

// giveUp makes the moves of the knot fail: those of the convoyed armies if there are any. A knot without convoys always
// has consistent answers, so that its moves never come to this.
func (mv *movement) giveUp() {
	knot := &mv.solver.knot
	for at := range knot.convoys.All() {
		mv.path[at] = no
		mv.solver.disrupted.Add(at)
	}
	if knot.convoys.Empty() {
		for at := range knot.orders.All() {
			mv.fate[at] = no
		}
	}
}

// findKnot walks from question to question along what they depend on until all it can reach can reach it back.
func (mv *movement) findKnot() questions {
	at := mv.anyOpen()
	for {
		var seen questions
		mv.follow(at, &seen)
		next, ok := mv.oneWay(at, &seen)
		if !ok {
			return seen
		}
		at = next
	}
}

func (mv *movement) anyOpen() question {
	at := mv.open[0]
	return question{at: at, convoy: mv.fate[at] != open}
}

// oneWay finds a question that from depends on, but that does not depend on from.
func (mv *movement) oneWay(from question, seen *questions) (question, bool) {
	for at := range seen.orders.All() {
		if q := (question{at: at}); !mv.leadsTo(q, from) {
			return q, true
		}
	}
	for at := range seen.convoys.All() {
		if q := (question{at: at, convoy: true}); !mv.leadsTo(q, from) {
			return q, true
		}
	}
	return question{}, false
}

func (mv *movement) leadsTo(from, to question) bool {
	var seen questions
	mv.follow(from, &seen)
	return seen.has(to)
}

// follow collects every open question that q depends on, in any number of steps. It includes q exactly if q depends on
// itself.
func (mv *movement) follow(q question, seen *questions) {
	switch {
	case q.convoy:
		for fleet := range mv.convoyers[q.at].All() {
			for by := mv.movers[fleet]; by != noProvince; by = mv.nextMover[by] {
				mv.visit(question{at: by}, seen)
			}
		}
	case mv.orders[q.at].Verb == Move:
		mv.followMove(q.at, seen)
	default:
		mv.followSupport(q.at, seen)
	}
}

func (mv *movement) followSupport(at Province, seen *questions) {
	against := mv.against(at)
	for by := mv.movers[at]; by != noProvince; by = mv.nextMover[by] {
		if mv.s.units[by].Power != mv.s.units[at].Power {
			mv.visit(question{at: by, convoy: by != against}, seen)
		}
	}
}

func (mv *movement) visit(q question, seen *questions) {
	openHere := mv.fate[q.at] == open
	if q.convoy {
		openHere = mv.path[q.at] == open
	}
	if openHere && !seen.has(q) {
		seen.add(q)
		mv.follow(q, seen)
	}
}

func (mv *movement) followMove(at Province, seen *questions) {
	to := mv.dest[at]
	mv.visit(question{at: at, convoy: true}, seen)
	switch {
	case !mv.s.occupied.Has(to):
	case mv.orders[to].Verb == Move && !mv.headToHead(at):
		mv.visit(question{at: to}, seen)
	default:
		mv.followStrength(to, seen)
	}
	for by := mv.movers[to]; by != noProvince; by = mv.nextMover[by] {
		mv.followStrength(by, seen)
		if by == at {
			continue
		}
		mv.visit(question{at: by, convoy: true}, seen)
		if mv.headToHead(by) {
			mv.visit(question{at: to}, seen)
		}
	}
}

func (mv *movement) followStrength(at Province, seen *questions) {
	for s := mv.supporters[at]; s != noProvince; s = mv.nextSupport[s] {
		mv.visit(question{at: s}, seen)
	}
}

// try looks for consistent answers to the knot: it assumes an answer where none follows, and goes on from there. It
// remembers the first set found, assuming success first, and stops at the second.
func (mv *movement) try() {
	saved := answers{mv.fate, mv.path}
	mv.propagate()
	q, left := mv.firstOpen()
	if !left {
		if mv.consistent() {
			if mv.solver.solutions == 0 {
				mv.solver.best = answers{mv.fate, mv.path}
			}
			mv.solver.solutions++
		}
	} else {
		for _, v := range [...]verdict{yes, no} {
			if mv.solver.solutions < 2 {
				mv.assume(q, v)
				mv.try()
			}
		}
	}
	mv.fate, mv.path = saved.fate, saved.path
}

func (mv *movement) assume(q question, v verdict) {
	if q.convoy {
		mv.path[q.at] = v
	} else {
		mv.fate[q.at] = v
	}
}

func (mv *movement) firstOpen() (question, bool) {
	for at := range mv.solver.knot.orders.All() {
		if mv.fate[at] == open {
			return question{at: at}, true
		}
	}
	for at := range mv.solver.knot.convoys.All() {
		if mv.path[at] == open {
			return question{at: at, convoy: true}, true
		}
	}
	return question{}, false
}

// propagate is propagateAll within the knot.
func (mv *movement) propagate() {
	for changed := true; changed; {
		changed = false
		for at := range mv.solver.knot.convoys.All() {
			if mv.path[at] == open {
				mv.path[at] = mv.judgePath(at)
				changed = changed || mv.path[at] != open
			}
		}
		for at := range mv.solver.knot.orders.All() {
			if mv.fate[at] == open {
				mv.fate[at] = mv.judge(at)
				changed = changed || mv.fate[at] != open
			}
		}
	}
}

// consistent reports whether every answer in the knot follows from all the others.
func (mv *movement) consistent() bool {
	for at := range mv.solver.knot.orders.All() {
		if mv.judge(at) != mv.fate[at] {
			return false
		}
	}
	for at := range mv.solver.knot.convoys.All() {
		if mv.judgePath(at) != mv.path[at] {
			return false
		}
	}
	return true
}
