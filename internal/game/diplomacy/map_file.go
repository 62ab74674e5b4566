package diplomacy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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

// maxNeighbors bounds the neighbours of a place, so that a set of them fits in a dislodged unit's word.
const maxNeighbors = 32

// LoadMap reads a board from its JSON form (standard_map.json is the example) and checks that the game can be
// played on it: a board that loads never makes a later call fail.
func LoadMap(data []byte) (*Map, error) {
	var f mapFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("read map: %w", err)
	}
	m := &Map{name: f.Name, victory: f.Victory, lexicon: map[string]Place{}, impass: map[string]bool{},
		powerOf: map[string]Power{}}
	if m.name == "" {
		m.name = "standard"
	}
	for _, step := range []func(*mapFile) error{
		m.addPowers, m.addProvinces, m.addEdges, m.addHomes, m.addStart, m.addNames, m.addAliases,
	} {
		if err := step(&f); err != nil {
			return nil, fmt.Errorf("map %s: %w", m.name, err)
		}
	}
	m.addSeas()
	m.addDistances()
	return m, nil
}

func (m *Map) addPowers(f *mapFile) error {
	if len(f.Powers) == 0 || len(f.Powers) > 64 {
		return fmt.Errorf("%d powers: want 1 to 64", len(f.Powers))
	}
	for i, p := range f.Powers {
		if _, twice := m.powerOf[p.name]; twice || p.name == "" {
			return fmt.Errorf("power %q: no name, or listed twice", p.name)
		}
		m.powers = append(m.powers, p.name)
		m.powerOf[p.name] = Power(i)
	}
	begin := f.Begin
	if begin == "" {
		begin = "S1901M"
	}
	var err error
	m.begin, err = ParsePhase(begin)
	if err == nil && m.begin.Type != Movement {
		err = fmt.Errorf("begin %s: want a movement phase", begin)
	}
	return err
}

func (m *Map) addProvinces(f *mapFile) error {
	terrains := map[string]Terrain{"inland": Inland, "coastal": Coastal, "sea": Sea}
	for i, p := range f.Provinces {
		t, ok := terrains[p.Type]
		switch {
		case !ok:
			return fmt.Errorf("province %s: unknown type %q", p.ID, p.Type)
		case !validID(p.ID):
			return fmt.Errorf("province %q: want an id of upper-case letters and digits", p.ID)
		case len(p.Coasts) > 0 && t != Coastal:
			return fmt.Errorf("province %s: has coasts but is not coastal", p.ID)
		case i >= int(NoPlace):
			return fmt.Errorf("%d provinces: at most %d", len(f.Provinces), NoPlace)
		}
		if err := m.addPlace(p.ID, Province(i)); err != nil {
			return err
		}
		m.provinces = append(m.provinces, provinceInfo{id: p.ID, name: p.Name, key: lexKey(p.Name),
			terrain: t, home: NoPower})
		if p.Center {
			m.centers.Add(Province(i))
		}
	}
	for i, p := range f.Provinces {
		for _, c := range p.Coasts {
			if !validCoast(c) {
				return fmt.Errorf("province %s: coast %q: want NC, SC, EC or WC", p.ID, c)
			}
			m.provinces[i].coasts = append(m.provinces[i].coasts, Place(len(m.places)))
			if err := m.addPlace(p.ID+"/"+c, Province(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// validID reports whether the notation can tell an id from its own words and signs.
func validID(s string) bool {
	return len(s) >= 2 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == "" && words[s] == wordNone
}

// validCoast is validID for coasts: the notation knows four.
func validCoast(s string) bool { return len(s) == 2 && words[s] == wordCoast }

func (m *Map) addPlace(name string, p Province) error {
	if len(m.places) >= int(NoPlace) {
		return fmt.Errorf("more than %d provinces and coasts", NoPlace)
	}
	if _, twice := m.lexicon[name]; twice {
		return fmt.Errorf("place %s: listed twice", name)
	}
	m.lexicon[name] = Place(len(m.places))
	m.provOf[len(m.places)] = p
	m.places = append(m.places, name)
	return nil
}

func (m *Map) addEdges(f *mapFile) error {
	if err := m.addEdgesOf(Army, f.ArmyEdges); err != nil {
		return err
	}
	if err := m.addEdgesOf(Fleet, f.FleetEdges); err != nil {
		return err
	}
	for kind := range m.moves {
		for at, list := range m.moves[kind] {
			slices.SortFunc(list, func(a, b Place) int {
				return cmp.Or(cmp.Compare(m.provOf[a], m.provOf[b]), cmp.Compare(a, b))
			})
			if len(list) > maxNeighbors {
				return fmt.Errorf("place %s: %d neighbours: at most %d", m.places[at], len(list), maxNeighbors)
			}
		}
	}
	return nil
}

func (m *Map) addEdgesOf(kind UnitKind, edges map[string][]string) error {
	for _, from := range slices.Sorted(maps.Keys(edges)) {
		for _, to := range edges[from] {
			if err := m.addEdge(kind, from, to, edges); err != nil {
				return fmt.Errorf("%v edge %s-%s: %w", kind, from, to, err)
			}
		}
	}
	return nil
}

func (m *Map) addEdge(kind UnitKind, from, to string, edges map[string][]string) error {
	a, okA := m.PlaceByName(from)
	b, okB := m.PlaceByName(to)
	switch {
	case !okA || !okB:
		return errors.New("no such place")
	case !m.stands(kind, a) || !m.stands(kind, b):
		return errors.New("such a unit cannot stand there")
	case m.provOf[a] == m.provOf[b]:
		return errors.New("within one province")
	case !slices.Contains(edges[to], from):
		return errors.New("only in one direction")
	case slices.Contains(m.moves[kind][a], b):
		return errors.New("listed twice")
	}
	m.moves[kind][a] = append(m.moves[kind][a], b)
	m.reach[kind][a].Add(m.provOf[b])
	return nil
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
