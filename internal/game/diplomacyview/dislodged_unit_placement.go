package diplomacyview

import (
	"math"

	"github.com/millrace/millrace/internal/game/diplomacy"
)

const (
	ringGap   = 4.0 // what a ring around a unit takes of its name's room
	ringedOut = unitRadius + 4
)

// nameAt is the middle of the foot of a province's name: below where a unit would stand, or above.
func (a *atlas) nameAt(name string, ringed bool) point {
	at, gap := a.anchor[name], 0.0
	if ringed {
		gap = ringGap
	}
	if a.above[name] {
		return point{at.x, at.y - unitRadius - 5 - gap}
	}
	return point{at.x, at.y + unitRadius + 12 + gap}
}

// besides are where a second unit may stand next to the first, the usual one first.
var besides = []point{{28, -22}, {-28, -22}, {28, 22}, {-28, 22}, {35, 0}, {-35, 0}, {0, -35}, {0, 37}}

// findRoom places the second unit of every province where it covers neither names nor other units, or as little as
// can be.
func (a *atlas) findRoom(m *diplomacy.Map) {
	a.beside = map[string]point{}
	for p := range m.PlaceCount() {
		name := m.PlaceName(diplomacy.Place(p))
		at, best := a.anchor[name], math.Inf(-1)
		for _, by := range besides {
			spot := point{at.x + by.x, at.y + by.y}
			if room := min(0, a.room(m, m.ProvinceID(m.Province(diplomacy.Place(p))), spot)); room > best {
				a.beside[name], best = spot, room
			}
		}
	}
}

// room is how far a ringed unit at a spot keeps from all names, the units of other provinces and the edge of the sheet;
// negative if it covers some.
func (a *atlas) room(m *diplomacy.Map, province string, spot point) float64 {
	room := min(spot.x, sheet[2].x-spot.x, spot.y, sheet[2].y-spot.y) - ringedOut
	for p := range m.PlaceCount() {
		place := diplomacy.Place(p)
		if int(p) < m.ProvinceCount() {
			foot := a.nameAt(m.PlaceName(place), false)
			room = min(room, fromBox(spot, foot.x-20, foot.x+20, foot.y-8, foot.y)-ringedOut)
		}
		if at := a.anchor[m.PlaceName(place)]; m.ProvinceID(m.Province(place)) != province {
			room = min(room, math.Hypot(at.x-spot.x, at.y-spot.y)-ringedOut-unitRadius)
		}
	}
	return room
}

// fromBox is the distance of p from a box.
func fromBox(p point, left, right, top, bottom float64) float64 {
	return math.Hypot(max(left-p.x, 0, p.x-right), max(top-p.y, 0, p.y-bottom))
}
