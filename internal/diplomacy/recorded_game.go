package diplomacy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
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
