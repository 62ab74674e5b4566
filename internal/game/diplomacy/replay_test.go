package diplomacy

import (
	"fmt"
	"maps"
	"slices"
)

// A GameReport says how a recorded game compares with the rules.
type GameReport struct {
	ID         string     `json:"id"`
	Phases     int        `json:"phases"` // phases that were played
	Mismatches []Mismatch `json:"mismatches,omitempty"`
}

// A Mismatch is one thing of a phase's outcome that the record has differently.
type Mismatch struct {
	Phase string       `json:"phase"` // the phase that was played
	What  MismatchKind `json:"what"`
	Power string       `json:"power,omitempty"`
	Unit  string       `json:"unit,omitempty"`
	Got   []string     `json:"got"`  // by the rules
	Want  []string     `json:"want"` // as recorded
}

// MismatchKind is what differs.
type MismatchKind string

// What may differ.
const (
	MismatchRecord    MismatchKind = "record"    // the recorded position is none
	MismatchOrder     MismatchKind = "order"     // a recorded order is none
	MismatchPhase     MismatchKind = "phase"     // the next phase
	MismatchUnits     MismatchKind = "units"     // the units of a power
	MismatchCenters   MismatchKind = "centers"   // the centres of a power
	MismatchDislodged MismatchKind = "dislodged" // the dislodged units of a power
	MismatchRetreats  MismatchKind = "retreats"  // where a dislodged unit may go
	MismatchDestroyed MismatchKind = "destroyed" // the units of a power that had no retreat
	MismatchAdjust    MismatchKind = "adjust"    // how many units a power builds or removes
	MismatchWinner    MismatchKind = "winner"    // who has won
)

// Replay plays every phase of a recorded game from its recorded position and compares the outcome with the record of
// the next phase. Every phase starts from the record, so that one mismatch does not cause more.
func (a *Adjudicator) Replay(rec Record) GameReport {
	r := replay{a: a, report: GameReport{ID: rec.ID}}
	for i := 0; i+1 < len(rec.Phases); i++ {
		r.play(&rec.Phases[i], &rec.Phases[i+1])
	}
	return r.report
}

// replay compares one game.
type replay struct {
	a      *Adjudicator
	report GameReport
	phase  string
}

func (r *replay) mismatch(what MismatchKind, power, unit string, got, want []string) {
	r.report.Mismatches = append(r.report.Mismatches, Mismatch{r.phase, what, power, unit, got, want})
}

func (r *replay) play(now, next *PhaseRecord) {
	r.phase = now.Phase
	r.report.Phases++
	s, err := NewState(r.a.m, now.Position)
	if err != nil {
		r.mismatch(MismatchRecord, "", "", []string{err.Error()}, nil)
		return
	}
	r.compareAdjust(s, now)
	out := r.a.Process(s, r.orders(s, now.Orders))
	r.compareDestroyed(out, now)
	r.comparePosition(out.Next.Position(), next)
	if w := r.winner(&out.Next); w != next.Winner {
		r.mismatch(MismatchWinner, "", "", []string{w}, []string{next.Winner})
	}
}

func (r *replay) winner(s *State) string {
	if p := s.Winner(); s.Done() && p != NoPower {
		return r.a.m.PowerName(p)
	}
	return ""
}

// orders parses recorded orders. Those against the rules go to the adjudicator as they are.
func (r *replay) orders(s *State, texts map[string][]string) [][]Order {
	orders := make([][]Order, len(r.a.m.powers))
	for name, list := range texts {
		p, ok := r.a.m.PowerByName(name)
		if !ok {
			r.mismatch(MismatchOrder, name, "", []string{"no such power"}, list)
			continue
		}
		for _, text := range list {
			o, err := ParseOrder(r.a.m, text)
			if err != nil {
				r.mismatch(MismatchOrder, name, "", []string{err.Error()}, []string{text})
				continue
			}
			orders[p] = append(orders[p], s.complete(o))
		}
	}
	return orders
}

func (r *replay) compareAdjust(s *State, now *PhaseRecord) {
	if s.phase.Type != Adjustment || now.Adjust == nil {
		return
	}
	for p, name := range r.a.m.powers {
		if got := s.CenterCount(Power(p)) - s.UnitCount(Power(p)); got != now.Adjust[name] {
			r.mismatch(MismatchAdjust, name, "", []string{fmt.Sprint(got)}, []string{fmt.Sprint(now.Adjust[name])})
		}
	}
}

func (r *replay) compareDestroyed(out *Outcome, now *PhaseRecord) {
	for p, name := range r.a.m.powers {
		var got []string
		for _, u := range out.Destroyed {
			if u.Power == Power(p) {
				got = append(got, r.a.m.UnitString(u))
			}
		}
		r.compare(MismatchDestroyed, name, "", got, now.Destroyed[name])
	}
}

func (r *replay) comparePosition(got Position, want *PhaseRecord) {
	if got.Phase != want.Phase {
		r.mismatch(MismatchPhase, "", "", []string{got.Phase}, []string{want.Phase})
	}
	for _, name := range r.a.m.powers {
		r.compare(MismatchUnits, name, "", got.Units[name], want.Units[name])
		r.compare(MismatchCenters, name, "", got.Centers[name], want.Centers[name])
		gone, wantGone := got.Dislodged[name], want.Dislodged[name]
		r.compare(MismatchDislodged, name, "", slices.Collect(maps.Keys(gone)), slices.Collect(maps.Keys(wantGone)))
		for unit, places := range gone {
			if wantPlaces, both := wantGone[unit]; both {
				r.compare(MismatchRetreats, name, unit, places, wantPlaces)
			}
		}
	}
}

// compare compares two lists without regard to their order.
func (r *replay) compare(what MismatchKind, power, unit string, got, want []string) {
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		r.mismatch(what, power, unit, got, want)
	}
}
