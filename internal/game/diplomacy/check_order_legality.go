package diplomacy

import "fmt"

// A Fault is why the rules forbid an order.
type Fault uint8

// The faults. The zero Fault is none.
const (
	FaultWrongPhase Fault = iota + 1
	FaultNoUnit
	FaultNotYours
	FaultWrongKind
	FaultUnreachable
	FaultStaysPut
	FaultNeedsCoast
	FaultNoConvoy
	FaultSupportsItself
	FaultNoSuchTarget
	FaultSupportOutOfReach
	FaultTargetOutOfReach
	FaultNotAtSea
	FaultCargoNotArmy
	FaultNotInChain
	FaultNoRetreat
	FaultNotHome
	FaultNotOwned
	FaultHomeTaken
	FaultCannotStand
	FaultNothingDue
	faults
)

var faultText = [faults]string{
	FaultWrongPhase:        "such an order has no place in this phase",
	FaultNoUnit:            "no unit stands there",
	FaultNotYours:          "the unit belongs to another power",
	FaultWrongKind:         "the unit there is of the other kind",
	FaultUnreachable:       "the destination is not next to the unit",
	FaultStaysPut:          "the unit stands there already",
	FaultNeedsCoast:        "the destination has two coasts in reach, and none is named",
	FaultNoConvoy:          "no chain of fleets joins the two coasts",
	FaultSupportsItself:    "a unit cannot support itself",
	FaultNoSuchTarget:      "the unit that it refers to is not there",
	FaultSupportOutOfReach: "the unit could not move to where it gives support",
	FaultTargetOutOfReach:  "the supported unit cannot go there",
	FaultNotAtSea:          "only a fleet at sea can convoy",
	FaultCargoNotArmy:      "only an army on a coast can be convoyed",
	FaultNotInChain:        "no chain of fleets joins the two coasts through this fleet",
	FaultNoRetreat:         "the unit cannot retreat there",
	FaultNotHome:           "not a home centre of the power",
	FaultNotOwned:          "the home centre is not owned by the power",
	FaultHomeTaken:         "the home centre is occupied",
	FaultCannotStand:       "such a unit cannot stand there",
	FaultNothingDue:        "the power has nothing to build or remove",
}

// Error makes a Fault an error.
func (f Fault) Error() string {
	if f < faults {
		return faultText[f]
	}
	return "unknown fault"
}

// Check answers why power p may not give order o in this position, as a wrapped Fault: nil if it may. What passes,
// after the same completion that ParseOrder does, is what a Generator lists.
func (s *State) Check(p Power, o Order) error {
	if f := s.fault(p, s.complete(o)); f != 0 {
		return fmt.Errorf("%s: %w", s.m.OrderString(o), f)
	}
	return nil
}

func (s *State) fault(p Power, o Order) Fault {
	switch s.phase.Type {
	case Movement:
		return s.movementFault(p, o)
	case Retreats:
		return s.retreatFault(p, o)
	case Adjustment:
		return s.adjustmentFault(p, o)
	}
	return FaultWrongPhase
}

func (s *State) movementFault(p Power, o Order) Fault {
	if o.Verb < Hold || o.Verb > Convoy {
		return FaultWrongPhase
	}
	u, f := s.ordered(p, o, s.unitAt(o.Place))
	switch {
	case f != 0:
		return f
	case o.Verb == Move:
		return s.moveFault(u, o)
	case o.Verb == Support:
		return s.supportFault(u, o)
	case o.Verb == Convoy:
		return s.convoyFault(u, o)
	}
	return 0
}

// ordered is the unit that an order is for, or why p cannot order it.
func (s *State) ordered(p Power, o Order, u Unit) (Unit, Fault) {
	switch {
	case u.Kind == 0:
		return u, FaultNoUnit
	case u.Power != p:
		return u, FaultNotYours
	case u.Kind != o.Kind:
		return u, FaultWrongKind
	}
	return u, 0
}

// unitAt is the unit in the province of a place, whichever coast it is on; the zero Unit if there is none.
func (s *State) unitAt(p Place) Unit {
	if int(p) >= len(s.m.places) {
		return Unit{}
	}
	return s.units[s.m.provOf[p]]
}

// fleetsAtSea are the provinces of the fleets that could convoy.
func (s *State) fleetsAtSea() ProvinceSet { return s.occupied.and(&s.m.seas) }

func (s *State) moveFault(u Unit, o Order) Fault {
	if int(o.Dest) >= len(s.m.places) {
		return FaultUnreachable
	}
	to := s.m.provOf[o.Dest]
	switch {
	case to == s.m.provOf[u.Place]:
		return FaultStaysPut
	case o.Via:
		if !s.carriable(u, to) || !s.m.chained(s.m.provOf[u.Place], to, s.fleetsAtSea()) {
			return FaultNoConvoy
		}
	case s.m.Adjacent(u.Kind, u.Place, o.Dest):
	case s.m.reach[u.Kind][u.Place].Has(to) && s.m.provinces[to].coasts != nil && Place(to) == o.Dest:
		return FaultNeedsCoast
	default:
		return FaultUnreachable
	}
	return 0
}

// carriable reports whether u is an army that a convoy could bring to a province, if the fleets were there.
func (s *State) carriable(u Unit, to Province) bool {
	from := s.m.provOf[u.Place]
	return u.Kind == Army && from != to && s.m.coastal.Has(from) && s.m.coastal.Has(to)
}

func (s *State) supportFault(u Unit, o Order) Fault {
	v := s.unitAt(o.Aux)
	at, from := s.m.provOf[u.Place], s.m.provOf[v.Place]
	into := s.m.reach[u.Kind][u.Place]
	switch {
	case v.Kind == 0 || v.Kind != o.AuxKind:
		return FaultNoSuchTarget
	case from == at:
		return FaultSupportsItself
	case o.Dest == NoPlace && !into.Has(from):
		return FaultSupportOutOfReach
	case o.Dest == NoPlace:
		return 0
	case int(o.Dest) >= len(s.m.places) || !into.Has(s.m.provOf[o.Dest]):
		return FaultSupportOutOfReach
	}
	to := s.m.provOf[o.Dest]
	if to == from || !s.couldGo(v, o.Dest, at) {
		return FaultTargetOutOfReach
	}
	return 0
}

// couldGo reports whether v could move to dest, by convoy too, without the help of a fleet in province without. A
// fleet's coast may be left open.
func (s *State) couldGo(v Unit, dest Place, without Province) bool {
	to := s.m.provOf[dest]
	if Place(to) != dest {
		return s.m.Adjacent(v.Kind, v.Place, dest)
	}
	if s.m.reach[v.Kind][v.Place].Has(to) {
		return true
	}
	fleets := s.fleetsAtSea()
	fleets.Remove(without)
	return s.carriable(v, to) && s.m.chained(s.m.provOf[v.Place], to, fleets)
}

func (s *State) convoyFault(u Unit, o Order) Fault {
	at, v := s.m.provOf[u.Place], s.unitAt(o.Aux)
	switch {
	case u.Kind != Fleet || !s.m.seas.Has(at):
		return FaultNotAtSea
	case v.Kind == 0 || v.Kind != o.AuxKind:
		return FaultNoSuchTarget
	case int(o.Dest) >= len(s.m.places) || !s.carriable(v, s.m.provOf[o.Dest]) || Place(s.m.provOf[o.Dest]) != o.Dest:
		return FaultCargoNotArmy
	case !s.m.chainNeeds(at, s.m.provOf[v.Place], s.m.provOf[o.Dest], s.fleetsAtSea()):
		return FaultNotInChain
	}
	return 0
}

func (s *State) retreatFault(p Power, o Order) Fault {
	if (o.Verb != Retreat && o.Verb != Disband) || int(o.Place) >= len(s.m.places) {
		return FaultWrongPhase
	}
	d := s.dislodged[s.m.provOf[o.Place]]
	if _, f := s.ordered(p, o, d.Unit); f != 0 || o.Verb == Disband {
		return f
	}
	for at := range s.RetreatPlaces(d) {
		if at == o.Dest {
			return 0
		}
	}
	return FaultNoRetreat
}

func (s *State) adjustmentFault(p Power, o Order) Fault {
	n := s.Adjustment(p)
	switch {
	case o.Verb != Build && o.Verb != Waive && o.Verb != Disband:
		return FaultWrongPhase
	case n == 0 || (n > 0) == (o.Verb == Disband):
		return FaultNothingDue
	case o.Verb == Build:
		return s.buildFault(p, o)
	case o.Verb == Disband:
		_, f := s.ordered(p, o, s.unitAt(o.Place))
		return f
	}
	return 0
}

func (s *State) buildFault(p Power, o Order) Fault {
	if int(o.Place) >= len(s.m.places) {
		return FaultNotHome
	}
	at := s.m.provOf[o.Place]
	switch {
	case !s.m.homes[p].Has(at):
		return FaultNotHome
	case s.owner[at] != p:
		return FaultNotOwned
	case s.occupied.Has(at):
		return FaultHomeTaken
	case !s.m.stands(o.Kind, o.Place):
		if o.Kind == Fleet && s.m.provinces[at].coasts != nil {
			return FaultNeedsCoast
		}
		return FaultCannotStand
	}
	return 0
}
