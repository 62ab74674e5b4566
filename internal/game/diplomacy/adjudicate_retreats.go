package diplomacy

// playRetreats moves dislodged units. Units that go to the same province disband, and so does who has no valid order.
func (a *Adjudicator) playRetreats(s *State, orders [][]Order) {
	var once, twice ProvinceSet
	given := &a.movement.orders
	for at := range s.uprooted.All() {
		given[at] = Order{}
		a.movement.result[at] = 0
	}
	for p, list := range orders {
		for _, o := range list {
			a.takeRetreat(s, Power(p), s.complete(o))
		}
	}
	for at := range s.uprooted.All() {
		if o := given[at]; o.Verb == Retreat {
			to := a.m.provOf[o.Dest]
			if once.Has(to) {
				twice.Add(to)
			}
			once.Add(to)
		}
	}
	for at := range s.uprooted.All() {
		a.retreat(s, at, &twice)
	}
}

// takeRetreat notes an order. One that the rules forbid counts as not given; a second, different order voids both.
func (a *Adjudicator) takeRetreat(s *State, p Power, o Order) {
	if int(o.Place) >= len(a.m.places) {
		return
	}
	at := a.m.provOf[o.Place]
	if d := s.dislodged[at]; d.Kind == 0 || d.Power != p {
		return
	}
	given, result := &a.movement.orders[at], &a.movement.result[at]
	switch legal := s.retreatFault(p, o) == 0; {
	case legal && given.Verb == 0:
		*given, *result = o, 0
	case legal && *given != o:
		*given, *result = s.dislodged[at].Disband(), Void
	case !legal && given.Verb == 0:
		*result = Void
	}
}

func (a *Adjudicator) retreat(s *State, at Province, crowded *ProvinceSet) {
	d, o, r := s.dislodged[at], a.movement.orders[at], a.movement.result[at]
	next := &a.out.Next
	next.removeDislodged(at)
	switch {
	case o.Verb != Retreat:
		o = d.Disband()
		r |= Disbanded
	case crowded.Has(a.m.provOf[o.Dest]):
		r |= Bounce | Disbanded
	default:
		u := d.Unit
		u.Place = o.Dest
		next.put(u)
	}
	a.report(d.Unit, o, r)
}
