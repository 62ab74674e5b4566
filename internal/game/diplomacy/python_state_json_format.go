package diplomacy

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A Snapshot is a State as the python package writes it.
type Snapshot struct {
	Timestamp     int64                          `json:"timestamp"` // microseconds; not known here, so the caller's
	Hash          string                         `json:"zobrist_hash"`
	Note          string                         `json:"note"`
	Name          string                         `json:"name"` // of the phase
	Units         map[string][]string            `json:"units"`
	Retreats      map[string]map[string][]string `json:"retreats"`
	Centers       map[string][]string            `json:"centers"`
	Homes         map[string][]string            `json:"homes"`
	Influence     map[string][]string            `json:"influence"`
	CivilDisorder map[string]int                 `json:"civil_disorder"`
	Builds        map[string]Builds              `json:"builds"`
	GameID        string                         `json:"game_id,omitempty"`
	Map           string                         `json:"map,omitempty"`
	Rules         []string                       `json:"rules,omitempty"`
}

// Builds is what a power may build or must remove, and where it may build. Outside adjustments there is nothing.
type Builds struct {
	Count int      `json:"count"`
	Homes []string `json:"homes"`
}

// dislodgedMark is before a unit that must retreat.
const dislodgedMark = "*"

// Snapshot describes s in the form of the python package. Lists are sorted; the hash tells positions apart, but is not
// the package's own, which differs from process to process.
func (s *State) Snapshot() Snapshot {
	p := s.Position()
	snap := Snapshot{
		Name: p.Phase, Map: s.m.name, Rules: []string{},
		Units: p.Units, Centers: p.Centers, Retreats: p.Dislodged,
		Homes: map[string][]string{}, Influence: map[string][]string{}, CivilDisorder: map[string]int{},
		Builds: map[string]Builds{},
	}
	if snap.Retreats == nil {
		snap.Retreats = map[string]map[string][]string{}
	}
	for i, name := range s.m.powers {
		if snap.Retreats[name] == nil {
			snap.Retreats[name] = map[string][]string{}
		}
		for unit := range snap.Retreats[name] {
			snap.Units[name] = append(snap.Units[name], dislodgedMark+unit)
		}
		slices.Sort(snap.Units[name])
		snap.Units[name] = listed(snap.Units[name])
		snap.Centers[name] = listed(snap.Centers[name])
		snap.Homes[name] = s.m.ids(s.m.homes[i])
		snap.Influence[name] = s.m.ids(s.visitedBy(Power(i)))
		snap.CivilDisorder[name] = 0
		snap.Builds[name] = s.builds(Power(i))
	}
	snap.Hash = strconv.FormatUint(s.hash(), 10)
	return snap
}

// listed makes the list of no elements an empty one, which JSON tells from none.
func listed(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func (m *Map) ids(set ProvinceSet) []string {
	list := []string{}
	for at := range set.All() {
		list = append(list, m.provinces[at].id)
	}
	return list
}

func (s *State) visitedBy(p Power) ProvinceSet {
	var set ProvinceSet
	for at := range s.m.provinces {
		if s.visitor[at] == p {
			set.Add(Province(at))
		}
	}
	return set
}

func (s *State) builds(p Power) Builds {
	b := Builds{Homes: []string{}}
	if s.phase.Type != Adjustment {
		return b
	}
	b.Count = s.Adjustment(p)
	if b.Count > 0 {
		for at := range s.FreeHomes(p) {
			b.Homes = append(b.Homes, s.m.provinces[at].id)
		}
	}
	return b
}

// hash is the same for equal positions, whenever and wherever they are reached.
func (s *State) hash() uint64 {
	h := fnv.New64a()
	put := func(b ...byte) { _, _ = h.Write(b) }
	put([]byte(s.phase.String())...)
	for at := range s.m.provinces {
		u, d := s.units[at], s.dislodged[at]
		put(byte(at), byte(u.Kind), byte(u.Power), byte(u.Place), byte(s.owner[at]))
		put(byte(d.Kind), byte(d.Power), byte(d.Place), byte(d.places), byte(d.places>>8), byte(d.places>>16),
			byte(d.places>>24))
	}
	return h.Sum64()
}

// Restore is the state that a snapshot describes.
func (m *Map) Restore(snap Snapshot) (*State, error) {
	p := Position{Phase: snap.Name, Units: map[string][]string{}, Centers: snap.Centers,
		Dislodged: map[string]map[string][]string{}}
	for name, units := range snap.Units {
		for _, text := range units {
			unit, dislodged := strings.CutPrefix(text, dislodgedMark)
			if !dislodged {
				p.Units[name] = append(p.Units[name], unit)
				continue
			}
			if p.Dislodged[name] == nil {
				p.Dislodged[name] = map[string][]string{}
			}
			p.Dislodged[name][unit] = snap.Retreats[name][unit]
		}
	}
	s, err := NewState(m, p)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(snap.Homes)) {
		if !m.hasHomes(name, snap.Homes[name]) {
			return nil, fmt.Errorf("restore %s: homes of %s are not those of the map", snap.Name, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(snap.Influence)) {
		if err := s.restoreInfluence(name, snap.Influence[name]); err != nil {
			return nil, fmt.Errorf("restore %s: %w", snap.Name, err)
		}
	}
	return s, nil
}

// hasHomes reports whether a power's home centres are the listed ones: other rules than ours let it build elsewhere.
func (m *Map) hasHomes(name string, homes []string) bool {
	power, ok := m.PowerByName(name)
	return ok && slices.Equal(slices.Sorted(slices.Values(homes)), slices.Sorted(slices.Values(m.ids(m.homes[power]))))
}

func (s *State) restoreInfluence(name string, ids []string) error {
	power, ok := s.m.PowerByName(name)
	if !ok {
		return fmt.Errorf("influence of %q: no such power", name)
	}
	for _, id := range ids {
		at, ok := s.m.PlaceByName(id)
		if !ok || int(at) >= len(s.m.provinces) {
			return fmt.Errorf("influence of %s: %q is no province", name, id)
		}
		s.visitor[at] = power
	}
	return nil
}
