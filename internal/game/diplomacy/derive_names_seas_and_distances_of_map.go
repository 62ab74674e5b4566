package diplomacy

import (
	"maps"
	"slices"
)

// addNames ranks the provinces by full English name, which breaks ties in civil disorder.
func (m *Map) addNames(f *mapFile) {
	for i, id := range f.ByName {
		at, _ := m.PlaceByName(id)
		m.rank[at] = uint8(i)
	}
}

// addAliases fills the lexicon with what else a province may be called. An id always means its own province.
func (m *Map) addAliases(f *mapFile) {
	for i, p := range f.Provinces {
		for _, name := range []string{p.Name, p.Godip} {
			if key := lexKey(name); key != "" {
				if _, taken := m.lexicon[key]; !taken {
					m.lexicon[key] = Place(i)
				}
			}
		}
	}
	for _, alias := range slices.Sorted(maps.Keys(f.Aliases)) {
		m.lexicon[lexKey(alias)], _ = m.PlaceByName(f.Aliases[alias])
	}
	for _, id := range f.Impassable {
		m.impass[lexKey(id)] = true
	}
}

// addSeas derives what convoys need: which seas touch each other, and which coastal provinces they touch.
func (m *Map) addSeas(*mapFile) {
	for i := range m.provinces {
		switch m.provinces[i].terrain {
		case Sea:
			m.seas.Add(Province(i))
		case Coastal:
			m.coastal.Add(Province(i))
		}
	}
	for sea := range m.seas.All() {
		next := m.reach[Fleet][sea]
		m.seaNext[sea] = next.and(&m.seas)
		m.coast[sea] = next.and(&m.coastal)
		for port := range m.coast[sea].All() {
			m.ports[port].Add(sea)
		}
	}
}

// unreachable is the distance of a unit that cannot get home at all; it counts as the farthest.
const unreachable = 255

// addDistances measures how far every place is from each power's home centres, for civil disorder: fleets go by fleet
// moves, armies by any border, seas included.
func (m *Map) addDistances(*mapFile) {
	m.distance = make([][3][256]uint8, len(m.powers))
	for p := range m.distance {
		for kind := range m.distance[p] {
			for at := range m.distance[p][kind] {
				m.distance[p][kind][at] = unreachable
			}
		}
		m.spreadArmy(&m.distance[p][Army], m.homes[p])
		m.spreadFleet(&m.distance[p][Fleet], m.homes[p])
	}
}

// spreadArmy fills dist, province by province in rings around the homes.
func (m *Map) spreadArmy(dist *[256]uint8, ring ProvinceSet) {
	seen := ring
	for d := uint8(0); !ring.Empty(); d++ {
		var next ProvinceSet
		for at := range ring.All() {
			dist[at] = d
			next = next.union(&m.reach[Army][at]).union(&m.reach[Fleet][at])
			for _, coast := range m.provinces[at].coasts {
				next = next.union(&m.reach[Fleet][coast])
			}
		}
		ring = next.minus(&seen)
		seen = seen.union(&ring)
	}
}

// spreadFleet fills dist, place by place; the coasts of a province are apart.
func (m *Map) spreadFleet(dist *[256]uint8, homes ProvinceSet) {
	var queue []Place
	for at := range m.places {
		if p := Place(at); m.stands(Fleet, p) && homes.Has(m.provOf[p]) {
			dist[p] = 0
			queue = append(queue, p)
		}
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, n := range m.moves[Fleet][at] {
			if dist[n] == unreachable {
				dist[n] = dist[at] + 1
				queue = append(queue, n)
			}
		}
	}
}
