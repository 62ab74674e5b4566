package diplomacy

import (
	_ "embed"
	"slices"
	"sync"
)

// Province is the index of a province in its map.
type Province uint8

// A Place is where a unit can be told to go: a province, or one coast of it. The first places of a map are its
// provinces, so Place(p) is province p without naming a coast.
type Place uint8

// NoPlace is no place.
const NoPlace Place = 255

// Terrain is what a province is made of, and so who can enter it.
type Terrain uint8

// The terrains. Armies enter Inland and Coastal, fleets Coastal and Sea; fleets at Sea convoy.
const (
	Inland Terrain = iota
	Coastal
	Sea
)

// A Map is a board: provinces, coasts, who is next to whom, who starts where. It never changes after LoadMap, so that
// any number of goroutines may share one.
type Map struct {
	name      string
	powers    []string
	provinces []provinceInfo
	places    []string                  // names by place
	provOf    [256]Province             // province by place
	moves     [3][256][]Place           // neighbours by UnitKind and place, in map order
	reach     [3][256]ProvinceSet       // the same as provinces
	centers   ProvinceSet               // supply centres
	homes     []ProvinceSet             // home centres by power
	start     []Unit                    // units at the start of a game
	begin     Phase                     // first phase of a game
	victory   int                       // centres that win
	rank      [MaxProvinces]uint8       // order of full names
	distance  [][3][256]uint8           // moves to the nearest home centre by power, UnitKind and place
	seas      ProvinceSet               // sea provinces
	coastal   ProvinceSet               // coastal provinces
	seaNext   [MaxProvinces]ProvinceSet // sea -> seas next to it
	coast     [MaxProvinces]ProvinceSet // sea -> coastal provinces next to it
	ports     [MaxProvinces]ProvinceSet // coastal province -> seas next to it
	lexicon   map[string]Place          // what a place may be called, upper case
	impass    map[string]bool           // names that are on the board but cannot be entered
	powerOf   map[string]Power          // by name
}

type provinceInfo struct {
	id, name string
	key      string // name as lexKey
	terrain  Terrain
	coasts   []Place
}

//go:embed standard_map.json
var standardMap []byte

// Standard is the standard board.
var Standard = sync.OnceValue(func() *Map {
	m, err := LoadMap(standardMap)
	if err != nil {
		panic("diplomacy: the embedded map is broken: " + err.Error())
	}
	return m
})

// Name is the short name that saved games carry, such as "standard".
func (m *Map) Name() string { return m.name }

// Powers are the names of the powers, in the order of their indices. The caller must not change it.
func (m *Map) Powers() []string { return m.powers }

// PowerName is the name of p.
func (m *Map) PowerName(p Power) string { return m.powers[p] }

// PowerByName finds a power; the second result is false if there is none of that name.
func (m *Map) PowerByName(name string) (Power, bool) {
	p, ok := m.powerOf[name]
	return p, ok
}

// ProvinceCount is the number of provinces; they are numbered from zero.
func (m *Map) ProvinceCount() int { return len(m.provinces) }

// PlaceCount is the number of provinces and coasts together; they are numbered from zero.
func (m *Map) PlaceCount() int { return len(m.places) }

// PlaceName is the short name of a place: "PAR", "STP/SC".
func (m *Map) PlaceName(p Place) string {
	if int(p) >= len(m.places) {
		return "?"
	}
	return m.places[p]
}

// PlaceByName finds a place by its short name.
func (m *Map) PlaceByName(name string) (Place, bool) {
	for p, s := range m.places {
		if s == name {
			return Place(p), true
		}
	}
	return NoPlace, false
}

// ProvinceID is the short name of a province.
func (m *Map) ProvinceID(p Province) string { return m.provinces[p].id }

// ProvinceName is the full English name of a province.
func (m *Map) ProvinceName(p Province) string { return m.provinces[p].name }

// Terrain is the terrain of a province.
func (m *Map) Terrain(p Province) Terrain { return m.provinces[p].terrain }

// Coasts are the coasts of a province that has more than one; fleets there are always on one of them.
// The caller must not change it.
func (m *Map) Coasts(p Province) []Place { return m.provinces[p].coasts }

// Province is the province that a place is or belongs to.
func (m *Map) Province(p Place) Province { return m.provOf[p] }

// Neighbors are the places that a unit of kind k on p could move to without a convoy, in map order. The caller must
// not change it.
func (m *Map) Neighbors(k UnitKind, p Place) []Place { return m.moves[k][p] }

// Reach is Neighbors as provinces: where such a unit could move to, and so give support into.
func (m *Map) Reach(k UnitKind, p Place) ProvinceSet { return m.reach[k][p] }

// Adjacent reports whether a unit of kind k on p could move to dest without a convoy.
func (m *Map) Adjacent(k UnitKind, p, dest Place) bool {
	return slices.Contains(m.moves[k][p], dest)
}

// IsCenter reports whether p has a supply centre.
func (m *Map) IsCenter(p Province) bool { return m.centers.Has(p) }

// Centers are the provinces with a supply centre.
func (m *Map) Centers() ProvinceSet { return m.centers }

// Homes are the home centres of a power.
func (m *Map) Homes(p Power) ProvinceSet { return m.homes[p] }

// VictoryCenters is how many centres win the game.
func (m *Map) VictoryCenters() int { return m.victory }

// StartUnits are the units at the start of a game. The caller must not change it.
func (m *Map) StartUnits() []Unit { return m.start }
