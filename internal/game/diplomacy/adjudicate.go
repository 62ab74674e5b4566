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

// An Adjudicator applies the rules. It reuses its memory; one Adjudicator serves one goroutine.
type Adjudicator struct {
	m        *Map
	movement movement
	before   State // a copy of the position, should it be the last outcome's
	out      Outcome
}

// NewAdjudicator makes an Adjudicator for positions on m.
func NewAdjudicator(m *Map) *Adjudicator { return &Adjudicator{m: m} }

// Process plays one phase: position s with the orders of each power, indexed by Power (missing powers and missing
// orders are fine). Orders that are not legal for their power count as Void and as not given. A game that is over stays
// as it is. Process does not change s, unless s is the Next of its own last Outcome: then it becomes the new one.
func (a *Adjudicator) Process(s *State, orders [][]Order) *Outcome {
	orders = orders[:min(len(orders), len(a.m.powers))]
	if s == &a.out.Next {
		a.before = *s
		s = &a.before
	}
	a.out.Next = *s
	a.out.Units, a.out.Destroyed = a.out.Units[:0], a.out.Destroyed[:0]
	switch s.phase.Type {
	case Movement:
		a.playMovement(s, orders)
	case Retreats:
		a.playRetreats(s, orders)
	case Adjustment:
		a.playAdjustments(s, orders)
	}
	a.out.Next.advance()
	return &a.out
}

// advance goes to the next phase that somebody can act in, or to the end of the game. After the fall retreats centres
// change hands, whether or not there was anything to retreat.
func (s *State) advance() {
	for s.phase.Type != Completed {
		played := s.phase
		s.phase = played.after()
		if played.Type == Retreats && played.Season == Fall {
			s.captureCenters()
			if s.Winner() != NoPower {
				s.phase = Phase{Type: Completed}
			}
		}
		if s.actable() {
			return
		}
	}
}

// actable reports whether the phase has to be played: movement always, others if somebody has a choice or a loss.
func (s *State) actable() bool {
	switch s.phase.Type {
	case Retreats:
		return !s.uprooted.Empty()
	case Adjustment:
		for p := range s.m.powers {
			if s.Adjustment(Power(p)) != 0 {
				return true
			}
		}
		return false
	}
	return true
}

func (s *State) captureCenters() {
	taken := s.occupied.and(&s.m.centers)
	for at := range taken.All() {
		s.owner[at] = s.units[at].Power
	}
}

func (a *Adjudicator) report(u Unit, o Order, r Result) {
	a.out.Units = append(a.out.Units, UnitOutcome{Unit: u, Order: o, Result: r})
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
