package diplomacy

// Verb is what an order tells a unit to do. The zero verb is no order.
type Verb uint8

// The verbs. Support with no destination supports a unit where it stands.
const (
	Hold Verb = iota + 1
	Move
	Support
	Convoy
	Retreat
	Disband
	Build
	Waive
)

// An Order is one order in compact form. Two orders are the same order exactly if they are ==, which holds because
// unused places are NoPlace and unused kinds zero: make orders with the methods of Unit, with WaiveOrder or ParseOrder.
type Order struct {
	Verb    Verb
	Kind    UnitKind // of the ordered unit
	Via     bool     // an army's move by convoy
	AuxKind UnitKind // of the supported or convoyed unit
	Place   Place    // where the ordered unit is, or is to be built
	Aux     Place    // where the supported or convoyed unit is
	Dest    Place    // of a move, supported move, convoy or retreat
}

// WaiveOrder gives up one build.
func WaiveOrder() Order { return Order{Verb: Waive, Place: NoPlace, Aux: NoPlace, Dest: NoPlace} }

// OrderString is the order in the notation of the python package, such as "F NTH C A LON - BEL".
func (m *Map) OrderString(o Order) string { return string(m.AppendOrder(nil, o)) }

// AppendOrder appends OrderString(o) to b.
func (m *Map) AppendOrder(b []byte, o Order) []byte {
	if o.Verb == Waive {
		return append(b, "WAIVE"...)
	}
	b = m.appendUnit(b, o.Kind, o.Place)
	switch o.Verb {
	case Hold:
		b = append(b, " H"...)
	case Move:
		b = m.appendDest(b, " - ", o.Dest)
		if o.Via {
			b = append(b, " VIA"...)
		}
	case Support, Convoy:
		b = m.appendSecond(b, o)
	case Retreat:
		b = m.appendDest(b, " R ", o.Dest)
	case Disband:
		b = append(b, " D"...)
	case Build:
		b = append(b, " B"...)
	}
	return b
}

// appendSecond appends what an order says about another unit.
func (m *Map) appendSecond(b []byte, o Order) []byte {
	if o.Verb == Support {
		b = append(b, " S "...)
	} else {
		b = append(b, " C "...)
	}
	b = m.appendUnit(b, o.AuxKind, o.Aux)
	if o.Dest == NoPlace {
		return b
	}
	return m.appendDest(b, " - ", o.Dest)
}

func (m *Map) appendDest(b []byte, verb string, dest Place) []byte {
	return append(append(b, verb...), m.PlaceName(dest)...)
}

func (m *Map) appendUnit(b []byte, k UnitKind, p Place) []byte {
	letter := byte('A')
	if k == Fleet {
		letter = 'F'
	}
	return append(append(b, letter, ' '), m.PlaceName(p)...)
}

// UnitString is the unit in the notation of the python package, such as "F STP/SC".
func (m *Map) UnitString(u Unit) string { return string(m.appendUnit(nil, u.Kind, u.Place)) }
