package diplomacy

import (
	"fmt"
	"strconv"
)

// Season is the first letter of a phase's name.
type Season byte

// The seasons of a year, in the order in which they are played.
const (
	Spring Season = 'S'
	Fall   Season = 'F'
	Winter Season = 'W'
)

// PhaseType says what powers do in a phase; it is the last letter of a phase's name.
type PhaseType byte

// The types of phase. Completed is the end of the game; its other fields are zero.
const (
	Movement   PhaseType = 'M'
	Retreats   PhaseType = 'R'
	Adjustment PhaseType = 'A'
	Completed  PhaseType = 'C'
)

const completedName = "COMPLETED"

// A Phase is one turn of the calendar, such as S1901M.
type Phase struct {
	Season Season
	Year   int32
	Type   PhaseType
}

// String is the name that the python package uses: S1901M, F1901R, W1901A, COMPLETED.
func (p Phase) String() string {
	if p.Type == Completed {
		return completedName
	}
	return string(p.Season) + strconv.Itoa(int(p.Year)) + string(p.Type)
}

// ParsePhase understands what Phase.String writes.
func ParsePhase(s string) (Phase, error) {
	if s == completedName {
		return Phase{Type: Completed}, nil
	}
	if len(s) < 3 {
		return Phase{}, fmt.Errorf("phase %q: want a name such as S1901M", s)
	}
	year, err := strconv.ParseUint(s[1:len(s)-1], 10, 15)
	if err != nil {
		return Phase{}, fmt.Errorf("phase %q: year: %w", s, err)
	}
	p := Phase{Season: Season(s[0]), Year: int32(year), Type: PhaseType(s[len(s)-1])}
	switch {
	case p.Season == Winter && p.Type == Adjustment:
	case (p.Season == Spring || p.Season == Fall) && (p.Type == Movement || p.Type == Retreats):
	default:
		return Phase{}, fmt.Errorf("phase %q: no such season and type", s)
	}
	return p, nil
}

// after is the next phase of the calendar, whether or not anybody can act in it.
func (p Phase) after() Phase {
	switch {
	case p.Type == Movement:
		return Phase{p.Season, p.Year, Retreats}
	case p.Type == Retreats && p.Season == Spring:
		return Phase{Fall, p.Year, Movement}
	case p.Type == Retreats:
		return Phase{Winter, p.Year, Adjustment}
	case p.Type == Adjustment:
		return Phase{Spring, p.Year + 1, Movement}
	}
	return p
}
