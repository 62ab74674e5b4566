package diplomacy

// Result says how an order fared; the zero Result is success. Several may hold at once.
type Result uint8

// The results, named after the words of the python package.
const (
	NoConvoy  Result = 1 << iota // "no convoy": the convoy was missing or broken
	Bounce                       // "bounce": the move met equal or greater strength
	Void                         // "void": the order was not possible, or matched no other order
	Cut                          // "cut": the support was attacked
	Dislodge                     // "dislodged": the unit must retreat
	Disrupted                    // "disrupted": the fleet stayed, but its convoy was given up by the paradox rule
	Disbanded                    // "disband": the unit left the board
)

// A UnitOutcome is what came of one unit's order.
type UnitOutcome struct {
	Unit   Unit  // before the phase
	Order  Order // as adjudicated: a unit without a valid order holds, or in retreats disbands
	Result Result
}

// An Outcome is what came of one phase. It belongs to the Adjudicator and is valid until its next call.
type Outcome struct {
	// Next is the position to be played next. Phases that nobody can act in are skipped.
	Next State
	// Units tells of every unit that had to act, in map order; in adjustments, of every build and removal.
	Units []UnitOutcome
	// Destroyed are the units that were dislodged and had nowhere to go, in map order.
	Destroyed []Unit
}

// resultWords are the words of the python package in the order of the bits.
var resultWords = [...]string{"no convoy", "bounce", "void", "cut", "dislodged", "disrupted", "disband"}

// Words are the words of the python package for r; none for success.
func (r Result) Words() []string {
	list := []string{}
	for i, w := range resultWords {
		if r&(1<<i) != 0 {
			list = append(list, w)
		}
	}
	return list
}
