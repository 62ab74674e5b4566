package bot

import (
	"github.com/millrace/millrace/internal/game/diplomacy"
)

// The constants of DumbBot, as its description lists them.
const (
	rings     = 10 // proximity 0 to 9
	spreading = 5  // what a ring's sum is divided by

	strengthWeight    = 1000
	competitionWeight = 1000
	defenceAtHome     = 1000 // value of defending the very place, in adjustments
)

// weights says how much each ring counts, and how attack and defence are mixed in the first.
type weights struct {
	attack, defence int
	ring            [rings]int
}

var (
	springWeights = weights{700, 300, [rings]int{100, 1000, 30, 10, 6, 5, 4, 3, 2, 1}}
	fallWeights   = weights{600, 400, [rings]int{1000, 100, 30, 10, 6, 5, 4, 3, 2, 1}}
	winterWeights = weights{700, 300, [rings]int{1000, 100, 30, 10, 6, 5, 4, 3, 2, 1}}
)

// values is what every place is worth to one power in one position.
type values struct {
	m     *diplomacy.Map
	nodes []node // where units can stand
	index [3][256]int16
	base  []int    // proximity 0 by node
	prox  [2][]int // this ring and the last
	worth []int    // by node

	strength    [diplomacy.MaxProvinces]int // own units in or next to a province
	competition [diplomacy.MaxProvinces]int // units of the strongest rival there
	defence     [diplomacy.MaxProvinces]int
	near        [][diplomacy.MaxProvinces]int // units in or next to a province, by power
	size        []int                         // by power
}

// A node is a kind of unit on a place.
type node struct {
	kind  diplomacy.UnitKind
	place diplomacy.Place
	next  []int16
}

func newValues(m *diplomacy.Map) values {
	v := values{m: m, near: make([][diplomacy.MaxProvinces]int, len(m.Powers())), size: make([]int, len(m.Powers()))}
	for kind := diplomacy.Army; kind <= diplomacy.Fleet; kind++ {
		for p := range m.PlaceCount() {
			if len(m.Neighbors(kind, diplomacy.Place(p))) == 0 {
				continue
			}
			v.index[kind][p] = int16(len(v.nodes))
			v.nodes = append(v.nodes, node{kind: kind, place: diplomacy.Place(p)})
		}
	}
	for i := range v.nodes {
		n := &v.nodes[i]
		for _, p := range m.Neighbors(n.kind, n.place) {
			n.next = append(n.next, v.index[n.kind][p])
		}
	}
	v.base, v.worth = make([]int, len(v.nodes)), make([]int, len(v.nodes))
	v.prox[0], v.prox[1] = make([]int, len(v.nodes)), make([]int, len(v.nodes))
	return v
}

// at is what a place is worth to a unit of kind k.
func (v *values) at(k diplomacy.UnitKind, p diplomacy.Place) int { return v.worth[v.index[k][p]] }

// assess values all places for power p.
func (v *values) assess(s *diplomacy.State, p diplomacy.Power) {
	v.countUnits(s, p)
	w := phaseWeights(s.Phase())
	v.seed(s, p, &w)
	copy(v.prox[0], v.base)
	for i := range v.worth {
		v.worth[i] = w.ring[0] * v.base[i]
	}
	now, last := v.prox[1], v.prox[0]
	for ring := 1; ring < rings; ring++ {
		for i := range v.nodes {
			sum := last[i]
			for _, n := range v.nodes[i].next {
				sum += last[n]
			}
			now[i] = sum / spreading
			v.worth[i] += w.ring[ring] * now[i]
		}
		now, last = last, now
	}
	v.addLocal(s.Phase().Type)
}

func phaseWeights(p diplomacy.Phase) weights {
	switch {
	case p.Type == diplomacy.Adjustment:
		return winterWeights
	case p.Season == diplomacy.Fall:
		return fallWeights
	}
	return springWeights
}

// countUnits counts, per province, the units of every power that stand in or next to it.
func (v *values) countUnits(s *diplomacy.State, own diplomacy.Power) {
	clear(v.near)
	for u := range s.AllUnits() {
		near := &v.near[u.Power]
		near[v.m.Province(u.Place)]++
		for at := range v.m.Reach(u.Kind, u.Place).All() {
			near[at]++
		}
	}
	v.strength = v.near[own]
	v.competition = [diplomacy.MaxProvinces]int{}
	for p := range v.near {
		if diplomacy.Power(p) == own {
			continue
		}
		for at := range v.m.ProvinceCount() {
			v.competition[at] = max(v.competition[at], v.near[p][at])
		}
	}
}

// seed sets proximity 0: what there is to attack in a province, or to defend.
func (v *values) seed(s *diplomacy.State, own diplomacy.Power, w *weights) {
	for p := range v.size {
		x := s.CenterCount(diplomacy.Power(p))
		v.size[p] = powerSize(x)
	}
	v.defence = [diplomacy.MaxProvinces]int{}
	var first [diplomacy.MaxProvinces]int
	for at := range v.m.Centers().All() {
		switch owner := s.Owner(at); owner {
		case own:
			v.defence[at] = v.threat(at, own)
			first[at] = w.defence * v.defence[at]
		case diplomacy.NoPower:
			first[at] = w.attack * powerSize(0)
		default:
			first[at] = w.attack * v.size[owner]
		}
	}
	for i := range v.nodes {
		v.base[i] = first[v.m.Province(v.nodes[i].place)]
	}
}

// powerSize rates a power by its centres.
func powerSize(centers int) int { return centers*centers + 4*centers + 16 }

// threat is the size of the largest other power with a unit in or next to a province.
func (v *values) threat(at diplomacy.Province, own diplomacy.Power) int {
	largest := 0
	for p := range v.near {
		if diplomacy.Power(p) != own && v.near[p][at] > 0 {
			largest = max(largest, v.size[p])
		}
	}
	return largest
}

// addLocal adds what counts at the very place: in adjustments the need to defend it, else who else is near.
func (v *values) addLocal(t diplomacy.PhaseType) {
	for i := range v.nodes {
		at := v.m.Province(v.nodes[i].place)
		if t == diplomacy.Adjustment {
			v.worth[i] += defenceAtHome * v.defence[at]
			continue
		}
		v.worth[i] += strengthWeight*v.strength[at] - competitionWeight*v.competition[at]
	}
}
