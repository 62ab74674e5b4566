package diplomacy

import "cmp"

// complete makes an order say in full what the position makes plain, and drops what does not matter: the coast that a
// unit stands on, a coast named for an army, the only coast in reach, the letter of a unit, VIA. It leaves alone what
// it cannot make sense of, which is then a fault.
func (s *State) complete(o Order) Order {
	switch s.phase.Type {
	case Movement:
		return s.completeMovement(o)
	case Retreats:
		return s.completeRetreat(o)
	case Adjustment:
		return s.completeAdjustment(o)
	}
	return o
}

func (s *State) completeMovement(o Order) Order {
	u := s.unitAt(o.Place)
	if u.Kind == 0 {
		return o
	}
	o.Place = u.Place
	o.Kind = cmp.Or(o.Kind, u.Kind)
	switch o.Verb {
	case Move:
		o.Dest = s.completeDest(u, o.Dest)
		o.Via = u.Kind == Army && s.byConvoy(u, o)
	case Support, Convoy:
		v := s.unitAt(o.Aux)
		if v.Kind == 0 {
			return o
		}
		o.Aux = v.Place
		o.AuxKind = cmp.Or(o.AuxKind, v.Kind)
		if v.Kind == Army {
			o.Dest = s.bare(o.Dest)
		}
	}
	return o
}

// completeDest is the destination of a move of u without a coast that does not matter, or with the only one in reach.
func (s *State) completeDest(u Unit, dest Place) Place {
	if int(dest) >= len(s.m.places) {
		return dest
	}
	if u.Kind == Army {
		return s.bare(dest)
	}
	if Place(s.m.provOf[dest]) != dest {
		return dest
	}
	only := dest
	for _, coast := range s.m.provinces[dest].coasts {
		if s.m.Adjacent(Fleet, u.Place, coast) {
			if only != dest {
				return dest
			}
			only = coast
		}
	}
	return only
}

func (s *State) bare(p Place) Place {
	if int(p) >= len(s.m.places) {
		return p
	}
	return Place(s.m.provOf[p])
}

// byConvoy reports whether an army's move is to be written with VIA: always when the destination is not next to it,
// and on demand when some chain of fleets could carry it.
func (s *State) byConvoy(u Unit, o Order) bool {
	if int(o.Dest) >= len(s.m.places) {
		return o.Via
	}
	to := s.m.provOf[o.Dest]
	near := s.m.reach[Army][u.Place].Has(to)
	if near && !o.Via {
		return false
	}
	return s.carriable(u, to) && (!near || s.m.chained(s.m.provOf[u.Place], to, s.fleetsAtSea()))
}

func (s *State) completeRetreat(o Order) Order {
	if int(o.Place) >= len(s.m.places) {
		return o
	}
	d := s.dislodged[s.m.provOf[o.Place]]
	if d.Kind == 0 {
		return o
	}
	o.Place = d.Place
	o.Kind = cmp.Or(o.Kind, d.Kind)
	switch o.Verb {
	case Move: // a retreat written as a move
		o.Verb, o.Via = Retreat, false
		o.Dest = s.completeRetreatDest(d, o.Dest)
	case Retreat:
		o.Dest = s.completeRetreatDest(d, o.Dest)
	}
	return o
}

// completeRetreatDest fills in the only coast that is open to d.
func (s *State) completeRetreatDest(d Dislodged, dest Place) Place {
	if d.Kind == Army {
		return s.bare(dest)
	}
	only := NoPlace
	for at := range s.RetreatPlaces(d) {
		if at == dest {
			return dest
		}
		if s.bare(at) == dest {
			if only != NoPlace {
				return dest
			}
			only = at
		}
	}
	if only != NoPlace {
		return only
	}
	return dest
}

func (s *State) completeAdjustment(o Order) Order {
	switch o.Verb {
	case Disband:
		if u := s.unitAt(o.Place); u.Kind != 0 {
			o.Place = u.Place
			o.Kind = cmp.Or(o.Kind, u.Kind)
		}
	case Build:
		if o.Kind == Army {
			o.Place = s.bare(o.Place)
		}
	}
	return o
}
