package diplomacyview

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"
)

// standardDrawing is the geometry of the standard board, which a test makes of standard.layout.
//
//go:embed standard.json
var standardDrawing []byte

type point struct{ x, y float64 }

// UnmarshalJSON reads [x, y].
func (p *point) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&p.x, &p.y})
}

// atlas is the geometry of a board.
type atlas struct {
	Places map[string]spot `json:"places"`
	Areas  []area          `json:"areas"` // in the order in which they are drawn
	// Borders are the lines between areas as one path for each kind: between lands, between seas, and coasts.
	Borders map[string]string `json:"borders"`
}

// spot is where the units of a place stand.
type spot struct {
	At     point `json:"at"`
	Beside point `json:"beside"` // a second one: one that is dislodged
	Above  bool  `json:"above"`  // the province's name stands above the unit, not below
}

// area is one province, or land that nobody enters.
type area struct {
	Name    string `json:"name"`
	Outline string `json:"outline"` // as a path
}

// standardAtlas is the one board of which there is a drawing.
var standardAtlas = sync.OnceValue(func() *atlas {
	a := &atlas{}
	if err := json.Unmarshal(standardDrawing, a); err != nil {
		panic(fmt.Errorf("the drawing of the standard board: %w", err)) // it is a part of the program
	}
	return a
})

// ringGap is what a ring around a unit takes of its name's room.
const ringGap = 4.0

// nameAt is the middle of the foot of a province's name: below where a unit would stand, or above.
func (a *atlas) nameAt(name string, ringed bool) point {
	s, gap := a.Places[name], 0.0
	if ringed {
		gap = ringGap
	}
	if s.Above {
		return point{s.At.x, s.At.y - unitRadius - 5 - gap}
	}
	return point{s.At.x, s.At.y + unitRadius + 12 + gap}
}
