package diplomacy

// playAdjustments builds and removes. The first legal orders count, up to what is due; missing builds are waived,
// missing removals are made by civil disorder.
func (a *Adjudicator) playAdjustments(s *State, orders [][]Order) {
	for p := range a.m.powers {
		var list []Order
		if p < len(orders) {
			list = orders[p]
		}
		switch n := s.Adjustment(Power(p)); {
		case n > 0:
			a.build(s, Power(p), list, n)
		case n < 0:
			a.remove(s, Power(p), list, -n)
		default:
			for _, o := range list {
				a.report(named(Power(p), o), o, Void)
			}
		}
	}
}

// named is the unit that an adjustment order speaks of, whether or not it exists.
func named(p Power, o Order) Unit {
	return Unit{Kind: o.Kind, Power: p, Place: o.Place}
}

func (a *Adjudicator) build(s *State, p Power, list []Order, due int) {
	next := &a.out.Next
	for _, o := range list {
		o = s.complete(o)
		u := named(p, o)
		switch {
		case due == 0 || s.adjustmentFault(p, o) != 0, o.Verb == Build && next.occupied.Has(a.m.provOf[o.Place]):
			a.report(u, o, Void)
			continue
		case o.Verb == Build:
			next.put(u)
		}
		a.report(u, o, 0)
		due--
	}
}

func (a *Adjudicator) remove(s *State, p Power, list []Order, due int) {
	next := &a.out.Next
	for _, o := range list {
		o = s.complete(o)
		if due == 0 || s.adjustmentFault(p, o) != 0 || !next.occupied.Has(a.m.provOf[o.Place]) {
			a.report(named(p, o), o, Void)
			continue
		}
		a.disband(p, o)
		due--
	}
	for ; due > 0; due-- {
		a.disband(p, a.farthest(p).Disband())
	}
}

func (a *Adjudicator) disband(p Power, o Order) {
	a.report(named(p, o), o, 0)
	a.out.Next.lift(a.m.provOf[o.Place])
}

// farthest is the unit that civil disorder removes: the one farthest from the power's home centres; of those as far a
// fleet before an army; of those the first by the full name of its province.
func (a *Adjudicator) farthest(p Power) Unit {
	var worst Unit
	for u := range a.out.Next.Units(p) {
		if worst.Kind == 0 || a.removedBefore(u, worst) {
			worst = u
		}
	}
	return worst
}

func (a *Adjudicator) removedBefore(u, v Unit) bool {
	far := &a.m.distance[u.Power]
	du, dv := far[u.Kind][u.Place], far[v.Kind][v.Place]
	switch {
	case du != dv:
		return du > dv
	case u.Kind != v.Kind:
		return u.Kind == Fleet
	}
	return a.m.rank[a.m.provOf[u.Place]] < a.m.rank[a.m.provOf[v.Place]]
}
