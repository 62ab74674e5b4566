package diplomacy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// A Position is a State in words: the form of recorded games.
type Position struct {
	Phase   string              `json:"name"`
	Units   map[string][]string `json:"units"`   // by power: "A PAR", "F STP/SC"
	Centers map[string][]string `json:"centers"` // by power
	// Dislodged are the units that must retreat and the places where they may, by power and unit.
	Dislodged map[string]map[string][]string `json:"dislodged,omitempty"`
}

// NewState is the state that a position describes. Centres that nobody is listed with are neutral.
func NewState(m *Map, p Position) (*State, error) {
	phase, err := ParsePhase(p.Phase)
	if err != nil {
		return nil, err
	}
	s := emptyState(m, phase)
	for _, name := range slices.Sorted(maps.Keys(p.Units)) {
		if err := s.addUnits(name, p.Units[name]); err != nil {
			return nil, fmt.Errorf("position %s: %w", p.Phase, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Centers)) {
		if err := s.addCenters(name, p.Centers[name]); err != nil {
			return nil, fmt.Errorf("position %s: %w", p.Phase, err)
		}
	}
	if len(p.Dislodged) > 0 && phase.Type != Retreats {
		return nil, fmt.Errorf("position %s: dislodged units outside a retreat phase", p.Phase)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Dislodged)) {
		if err := s.addDislodged(name, p.Dislodged[name]); err != nil {
			return nil, fmt.Errorf("position %s: %w", p.Phase, err)
		}
	}
	return s, nil
}

func (s *State) addUnits(name string, units []string) error {
	power, ok := s.m.PowerByName(name)
	if !ok {
		return fmt.Errorf("power %q: not on this map", name)
	}
	for _, text := range units {
		u, err := s.m.parseUnit(text)
		if err != nil {
			return fmt.Errorf("power %s: %w", name, err)
		}
		if s.occupied.Has(s.m.provOf[u.Place]) {
			return fmt.Errorf("power %s: unit %s: province already taken", name, text)
		}
		u.Power = power
		s.put(u)
	}
	return nil
}

func (s *State) addCenters(name string, centers []string) error {
	power, ok := s.m.PowerByName(name)
	if !ok {
		return fmt.Errorf("power %q: not on this map", name)
	}
	for _, id := range centers {
		at, ok := s.m.PlaceByName(id)
		if !ok || int(at) >= len(s.m.provinces) || !s.m.centers.Has(Province(at)) {
			return fmt.Errorf("power %s: %s is not a supply centre", name, id)
		}
		if s.owner[at] != NoPower {
			return fmt.Errorf("power %s: centre %s: already owned", name, id)
		}
		s.owner[at] = power
	}
	return nil
}

func (s *State) addDislodged(name string, units map[string][]string) error {
	power, ok := s.m.PowerByName(name)
	if !ok {
		return fmt.Errorf("power %q: not on this map", name)
	}
	for _, text := range slices.Sorted(maps.Keys(units)) {
		if err := s.addDislodgedUnit(power, text, units[text]); err != nil {
			return fmt.Errorf("power %s: dislodged %s: %w", name, text, err)
		}
	}
	return nil
}

func (s *State) addDislodgedUnit(power Power, text string, places []string) error {
	u, err := s.m.parseUnit(text)
	if err != nil {
		return err
	}
	at := s.m.provOf[u.Place]
	if s.uprooted.Has(at) {
		return errors.New("its province already has one")
	}
	u.Power = power
	d := Dislodged{Unit: u}
	for _, place := range places {
		bit, err := s.retreatBit(u, place)
		if err != nil {
			return err
		}
		d.places |= bit
	}
	s.dislodged[at] = d
	s.uprooted.Add(at)
	return nil
}

func (s *State) retreatBit(u Unit, place string) (uint32, error) {
	for i, n := range s.m.moves[u.Kind][u.Place] {
		if s.m.places[n] == place {
			return 1 << i, nil
		}
	}
	return 0, fmt.Errorf("retreat to %q: not next to it", place)
}

// Position describes s in words. Lists are sorted, so equal states give equal positions.
func (s *State) Position() Position {
	p := Position{Phase: s.phase.String(), Units: map[string][]string{}, Centers: map[string][]string{}}
	for i, name := range s.m.powers {
		for u := range s.Units(Power(i)) {
			p.Units[name] = append(p.Units[name], s.m.UnitString(u))
		}
		for at := range s.Centers(Power(i)) {
			p.Centers[name] = append(p.Centers[name], s.m.provinces[at].id)
		}
		for d := range s.Dislodged(Power(i)) {
			if p.Dislodged == nil {
				p.Dislodged = map[string]map[string][]string{}
			}
			if p.Dislodged[name] == nil {
				p.Dislodged[name] = map[string][]string{}
			}
			places := []string{}
			for at := range s.RetreatPlaces(d) {
				places = append(places, s.m.places[at])
			}
			p.Dislodged[name][s.m.UnitString(d.Unit)] = places
		}
	}
	return p
}
