package diplomacy

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
