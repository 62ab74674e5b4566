package diplomacy

// Power is the index of a power in Map.Powers.
type Power int8

// NoPower is the owner of what nobody owns.
const NoPower Power = -1

// noProvince is no province; the last place that a map may have is below it.
const noProvince Province = 255

// UnitKind is what a unit is. The zero kind is no unit.
type UnitKind uint8

// The kinds of unit.
const (
	Army UnitKind = iota + 1
	Fleet
)

// String is the letter of the notation: A or F.
func (k UnitKind) String() string {
	switch k {
	case Army:
		return "A"
	case Fleet:
		return "F"
	}
	return "?"
}

// A Unit is an army or a fleet of a power on a place. The zero Unit is no unit.
type Unit struct {
	Kind  UnitKind
	Power Power
	Place Place
}

// Hold orders the unit to stay.
func (u Unit) Hold() Order { return u.order(Hold) }

// Move orders the unit to dest.
func (u Unit) Move(dest Place) Order {
	o := u.order(Move)
	o.Dest = dest
	return o
}

// MoveVia orders the army to dest by convoy.
func (u Unit) MoveVia(dest Place) Order {
	o := u.Move(dest)
	o.Via = true
	return o
}

// SupportHold orders the unit to support v where it stands.
func (u Unit) SupportHold(v Unit) Order { return u.SupportMove(v, NoPlace) }

// SupportMove orders the unit to support the move of v to dest.
func (u Unit) SupportMove(v Unit, dest Place) Order {
	o := u.order(Support)
	o.AuxKind, o.Aux, o.Dest = v.Kind, v.Place, dest
	return o
}

// Convoy orders the fleet to carry the army v to dest.
func (u Unit) Convoy(v Unit, dest Place) Order {
	o := u.order(Convoy)
	o.AuxKind, o.Aux, o.Dest = v.Kind, v.Place, dest
	return o
}

// Retreat orders the dislodged unit to dest.
func (u Unit) Retreat(dest Place) Order {
	o := u.order(Retreat)
	o.Dest = dest
	return o
}

// Disband orders the unit off the board, in a retreat or an adjustment.
func (u Unit) Disband() Order { return u.order(Disband) }

// Build orders the unit, which does not exist yet, to be built.
func (u Unit) Build() Order { return u.order(Build) }

func (u Unit) order(v Verb) Order {
	return Order{Verb: v, Kind: u.Kind, Place: u.Place, Aux: NoPlace, Dest: NoPlace}
}
