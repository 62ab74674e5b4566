package diplomacy

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// checkMap loads a board and checks that the game can be played on it: a board that passes never makes a later call
// fail.
func checkMap(data []byte) (*Map, error) {
	var f mapFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("read map: %w", err)
	}
	m, err := newMap(&f)
	if err != nil {
		return nil, err
	}
	checks := []func(*Map, *mapFile) error{
		checkPowers, checkProvinces, checkEdges, checkHomes, checkStart, checkNames, checkAliases,
	}
	for i, step := range m.steps() {
		if i < len(checks) {
			if err := checks[i](m, &f); err != nil {
				return nil, err
			}
		}
		step(&f)
	}
	return m, nil
}

func checkPowers(m *Map, f *mapFile) error {
	if len(f.Powers) == 0 || len(f.Powers) > 64 {
		return fmt.Errorf("%d powers: want 1 to 64", len(f.Powers))
	}
	seen := map[string]bool{}
	for _, p := range f.Powers {
		if seen[p.name] || p.name == "" {
			return fmt.Errorf("power %q: no name, or listed twice", p.name)
		}
		seen[p.name] = true
	}
	if m.begin.Type != Movement {
		return fmt.Errorf("begin %s: want a movement phase", f.Begin)
	}
	return nil
}

func checkProvinces(_ *Map, f *mapFile) error {
	seen := map[string]bool{}
	for _, p := range f.Provinces {
		t, ok := terrains[p.Type]
		switch {
		case !ok:
			return fmt.Errorf("province %s: unknown type %q", p.ID, p.Type)
		case !validID(p.ID):
			return fmt.Errorf("province %q: want an id of upper-case letters and digits", p.ID)
		case len(p.Coasts) > 0 && t != Coastal:
			return fmt.Errorf("province %s: has coasts but is not coastal", p.ID)
		}
		for _, c := range append([]string{""}, p.Coasts...) {
			if c != "" && !validCoast(c) {
				return fmt.Errorf("province %s: coast %q: want NC, SC, EC or WC", p.ID, c)
			}
			if name := p.ID + "/" + c; seen[name] {
				return fmt.Errorf("place %s: listed twice", name)
			}
			seen[p.ID+"/"+c] = true
		}
	}
	if len(seen) > int(NoPlace) {
		return fmt.Errorf("more than %d provinces and coasts", NoPlace)
	}
	return nil
}

// validID reports whether the notation can tell an id from its own words and signs.
func validID(s string) bool {
	return len(s) >= 2 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == "" && words[s] == wordNone
}

// validCoast is validID for coasts: the notation knows four.
func validCoast(s string) bool { return len(s) == 2 && words[s] == wordCoast }

// maxNeighbors bounds the neighbours of a place, so that a set of them fits in a dislodged unit's word.
const maxNeighbors = 32

func checkEdges(m *Map, f *mapFile) error {
	for kind, edges := range map[UnitKind]map[string][]string{Army: f.ArmyEdges, Fleet: f.FleetEdges} {
		for from, list := range edges {
			if len(list) > maxNeighbors {
				return fmt.Errorf("place %s: %d neighbours: at most %d", from, len(list), maxNeighbors)
			}
			for i, to := range list {
				err := checkEdge(m, kind, from, to, edges)
				if err == nil && slices.Contains(list[:i], to) {
					err = errors.New("listed twice")
				}
				if err != nil {
					return fmt.Errorf("%v edge %s-%s: %w", kind, from, to, err)
				}
			}
		}
	}
	return nil
}

func checkEdge(m *Map, kind UnitKind, from, to string, edges map[string][]string) error {
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
	}
	return nil
}

func checkHomes(m *Map, f *mapFile) error {
	of := map[string]string{}
	for _, p := range f.Powers {
		for _, id := range p.Homes {
			at, ok := m.PlaceByName(id)
			if !ok || int(at) >= len(m.provinces) || !m.centers.Has(Province(at)) {
				return fmt.Errorf("power %s: home %s is not a supply centre", p.name, id)
			}
			if of[id] != "" {
				return fmt.Errorf("home %s: belongs to two powers", id)
			}
			of[id] = p.name
		}
	}
	for _, p := range f.Provinces {
		if p.Home != nil && of[p.ID] != *p.Home {
			return fmt.Errorf("province %s: home_of %s, but that power does not list it", p.ID, *p.Home)
		}
	}
	if m.victory <= 0 {
		return fmt.Errorf("victory_centers %d: want at least 1", m.victory)
	}
	return nil
}

func checkStart(m *Map, f *mapFile) error {
	var taken ProvinceSet
	for _, p := range f.Powers {
		for _, text := range p.Units {
			u, err := m.parseUnit(text)
			if err != nil {
				return fmt.Errorf("power %s: %w", p.name, err)
			}
			at := m.provOf[u.Place]
			if taken.Has(at) {
				return fmt.Errorf("power %s: unit %s: province already taken", p.name, text)
			}
			taken.Add(at)
		}
	}
	return nil
}

func checkNames(m *Map, f *mapFile) error {
	if len(f.ByName) != len(m.provinces) {
		return fmt.Errorf("alphabetical_by_name: %d provinces of %d", len(f.ByName), len(m.provinces))
	}
	var seen ProvinceSet
	for _, id := range f.ByName {
		at, ok := m.PlaceByName(id)
		if !ok || int(at) >= len(m.provinces) || seen.Has(Province(at)) {
			return fmt.Errorf("alphabetical_by_name: %s: no such province, or listed twice", id)
		}
		seen.Add(Province(at))
	}
	return nil
}

func checkAliases(m *Map, f *mapFile) error {
	for alias, id := range f.Aliases {
		if _, ok := m.PlaceByName(id); !ok {
			return fmt.Errorf("alias %s: no such place as %s", alias, id)
		}
	}
	return nil
}
