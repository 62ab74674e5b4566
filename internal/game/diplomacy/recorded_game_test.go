package diplomacy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
)

// A Record is a game that was played elsewhere: one line of a file of recorded games.
type Record struct {
	ID     string        `json:"id"`
	Source string        `json:"source,omitempty"`
	Map    string        `json:"map,omitempty"`
	Phases []PhaseRecord `json:"phases"`
}

// A PhaseRecord is a position with what was ordered in it. What came of it is the next record of the game; the last
// one has no orders.
type PhaseRecord struct {
	Position
	Orders map[string][]string `json:"orders"`
	// Adjust is centres less units by power, in adjustments, where they differ.
	Adjust map[string]int `json:"adjust,omitempty"`
	// Destroyed are the units of this movement phase that are dislodged by it and have no retreat.
	Destroyed map[string][]string `json:"destroyed,omitempty"`
	// Winner is set in the last record of a game that ended in a solo.
	Winner string `json:"winner,omitempty"`
}

// ReadRecords reads recorded games, one JSON value a line. It ends after the first error.
func ReadRecords(r io.Reader) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		d := json.NewDecoder(r)
		for n := 1; ; n++ {
			var rec Record
			err := d.Decode(&rec)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(Record{}, fmt.Errorf("read game %d: %w", n, plainly(err)))
				return
			}
			if !yield(rec, nil) {
				return
			}
		}
	}
}

// plainly says what is wrong with a record without the words of this program.
func plainly(err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("it is cut off: %w", err)
	case errors.As(err, &wrong) && wrong.Field == "":
		return fmt.Errorf("want an object with id and phases, not %s", article(wrong.Value))
	case errors.As(err, &wrong):
		return fmt.Errorf("%s cannot be %s", wrong.Field, article(wrong.Value))
	}
	return err
}

func article(kind string) string {
	if strings.HasPrefix(kind, "a") || strings.HasPrefix(kind, "o") {
		return "an " + kind
	}
	return "a " + kind
}

// Record is the game in the form that Replay compares. Where the package offers retreats that the rules forbid, Replay
// reports them.
func (g *SavedGame) Record(m *Map) (Record, error) {
	rec := Record{ID: g.ID, Source: "saved game", Map: g.Map}
	for i := range g.Phases {
		p := &g.Phases[i]
		s, err := m.Restore(p.State)
		if err != nil {
			return Record{}, fmt.Errorf("game %s: %w", g.ID, err)
		}
		r := PhaseRecord{Position: s.Position(), Orders: p.Orders}
		if w := s.Winner(); s.Done() && w != NoPower {
			r.Winner = m.PowerName(w)
		}
		if i+1 < len(g.Phases) && s.phase.Type == Movement {
			r.Destroyed = destroyedIn(p, &g.Phases[i+1])
		}
		rec.Phases = append(rec.Phases, r)
	}
	return rec, nil
}

// destroyedIn finds the units that a movement phase dislodged and that are not among those who may retreat.
func destroyedIn(p, next *SavedPhase) map[string][]string {
	all := map[string][]string{}
	for name, units := range p.State.Units {
		for _, unit := range units {
			_, retreats := next.State.Retreats[name][unit]
			if !retreats && slices.Contains(p.Results[unit], "dislodged") {
				all[name] = append(all[name], unit)
			}
		}
	}
	return all
}
