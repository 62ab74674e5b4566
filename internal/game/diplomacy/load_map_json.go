package diplomacy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// mapFile is a map as it is written down.
type mapFile struct {
	Format     string              `json:"format"`
	Name       string              `json:"name"`  // "standard" if missing
	Begin      string              `json:"begin"` // S1901M if missing
	Victory    int                 `json:"victory_centers"`
	Impassable []string            `json:"impassable"`
	Powers     filePowers          `json:"powers"`
	Provinces  []fileProvince      `json:"provinces"`
	ArmyEdges  map[string][]string `json:"army_adjacency"`
	FleetEdges map[string][]string `json:"fleet_adjacency"`
	ByName     []string            `json:"alphabetical_by_name"`
	Aliases    map[string]string   `json:"aliases"`
}

type fileProvince struct {
	ID     string   `json:"id"`
	Name   string   `json:"name"`
	Type   string   `json:"type"`
	Coasts []string `json:"coasts"`
	Center bool     `json:"supply_center"`
	Home   *string  `json:"home_of"`
	Godip  string   `json:"godip_id"`
}

type filePower struct {
	name  string
	Homes []string `json:"home_centers"`
	Units []string `json:"start_units"`
}

// filePowers keeps the order in which the file lists the powers: it is the order of the map.
type filePowers []filePower

func (ps *filePowers) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("powers: want an object")
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return fmt.Errorf("powers: %w", err)
		}
		p := filePower{name: t.(string)}
		if err := d.Decode(&p); err != nil {
			return fmt.Errorf("power %s: %w", p.name, err)
		}
		*ps = append(*ps, p)
	}
	return nil
}

// LoadMap reads a board from its JSON form; standard_map.json is the example. Boards are part of the program: a test
// checks that the game can be played on them, and one that does not hold together may panic here.
func LoadMap(data []byte) (*Map, error) {
	var f mapFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("read map: %w", err)
	}
	m, err := newMap(&f)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", f.Name, err)
	}
	for _, step := range m.steps() {
		step(&f)
	}
	return m, nil
}

func newMap(f *mapFile) (m *Map, err error) {
	m = &Map{name: cmp.Or(f.Name, "standard"), victory: f.Victory, lexicon: map[string]Place{},
		impass: map[string]bool{}, powerOf: map[string]Power{}}
	m.begin, err = ParsePhase(cmp.Or(f.Begin, "S1901M"))
	return m, err
}

// steps fill the map, each from what those before it have filled in.
func (m *Map) steps() []func(*mapFile) {
	return []func(*mapFile){
		m.addPowers, m.addProvinces, m.addEdges, m.addHomes, m.addStart, m.addNames, m.addAliases, m.addSeas, m.addDistances,
	}
}

func (m *Map) addPowers(f *mapFile) {
	for i, p := range f.Powers {
		m.powers = append(m.powers, p.name)
		m.powerOf[p.name] = Power(i)
	}
}

var terrains = map[string]Terrain{"inland": Inland, "coastal": Coastal, "sea": Sea}

func (m *Map) addProvinces(f *mapFile) {
	for i, p := range f.Provinces {
		m.addPlace(p.ID, Province(i))
		m.provinces = append(m.provinces, provinceInfo{id: p.ID, name: p.Name, key: lexKey(p.Name),
			terrain: terrains[p.Type]})
		if p.Center {
			m.centers.Add(Province(i))
		}
	}
	for i, p := range f.Provinces {
		for _, c := range p.Coasts {
			m.provinces[i].coasts = append(m.provinces[i].coasts, Place(len(m.places)))
			m.addPlace(p.ID+"/"+c, Province(i))
		}
	}
}

func (m *Map) addPlace(name string, p Province) {
	m.lexicon[name] = Place(len(m.places))
	m.provOf[len(m.places)] = p
	m.places = append(m.places, name)
}

func (m *Map) addEdges(f *mapFile) {
	for kind, edges := range map[UnitKind]map[string][]string{Army: f.ArmyEdges, Fleet: f.FleetEdges} {
		for from, list := range edges {
			a, _ := m.PlaceByName(from)
			for _, to := range list {
				b, _ := m.PlaceByName(to)
				m.moves[kind][a] = append(m.moves[kind][a], b)
				m.reach[kind][a].Add(m.provOf[b])
			}
			slices.SortFunc(m.moves[kind][a], func(a, b Place) int {
				return cmp.Or(cmp.Compare(m.provOf[a], m.provOf[b]), cmp.Compare(a, b))
			})
		}
	}
}

// stands reports whether a unit of kind k can be on p at all.
func (m *Map) stands(k UnitKind, p Place) bool {
	if int(p) >= len(m.places) {
		return false
	}
	info := &m.provinces[m.provOf[p]]
	bare := int(p) < len(m.provinces)
	switch k {
	case Army:
		return bare && info.terrain != Sea
	case Fleet:
		return info.terrain != Inland && bare == (len(info.coasts) == 0)
	}
	return false
}

func (m *Map) addHomes(f *mapFile) {
	m.homes = make([]ProvinceSet, len(m.powers))
	for i, p := range f.Powers {
		for _, id := range p.Homes {
			at, _ := m.PlaceByName(id)
			m.homes[i].Add(Province(at))
		}
	}
}

func (m *Map) addStart(f *mapFile) {
	for i, p := range f.Powers {
		for _, text := range p.Units {
			u, _ := m.parseUnit(text)
			u.Power = Power(i)
			m.start = append(m.start, u)
		}
	}
}

// parseUnit reads the exact notation of a unit, as files have it.
func (m *Map) parseUnit(text string) (Unit, error) {
	letter, at, ok := strings.Cut(text, " ")
	place, known := m.PlaceByName(at)
	kind := map[string]UnitKind{"A": Army, "F": Fleet}[letter]
	if !ok || !known || !m.stands(kind, place) {
		return Unit{}, fmt.Errorf("unit %q: want a letter and a place where such a unit can stand", text)
	}
	return Unit{Kind: kind, Power: NoPower, Place: place}, nil
}
