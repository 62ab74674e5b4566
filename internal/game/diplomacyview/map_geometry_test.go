package diplomacyview

import (
	"math"
	"testing"

	"github.com/millrace/millrace/internal/game/diplomacy"
)

// The drawing tells the truth: provinces that are next to each other on the board share a border that can be seen.
func TestNeighboursShareABorder(t *testing.T) {
	t.Parallel()
	m := diplomacy.Standard()
	a, err := newAtlas(m)
	if err != nil {
		t.Fatal(err)
	}
	shared := map[[2]string]float64{}
	for _, b := range a.borders {
		shared[key(b.between[0], b.between[1])] += math.Hypot(b.to.x-b.from.x, b.to.y-b.from.y)
	}
	next := map[[2]string]bool{}
	for p := range m.PlaceCount() {
		for kind := diplomacy.Army; kind <= diplomacy.Fleet; kind++ {
			for _, q := range m.Neighbors(kind, diplomacy.Place(p)) {
				next[key(m.ProvinceID(m.Province(diplomacy.Place(p))), m.ProvinceID(m.Province(q)))] = true
			}
		}
	}
	const visible = 8
	for pair := range next {
		if shared[pair] < visible {
			t.Errorf("%s and %s are neighbours but share %.0f of border", pair[0], pair[1], shared[pair])
		}
	}
	for pair, length := range shared {
		_, okA := m.PlaceByName(pair[0])
		_, okB := m.PlaceByName(pair[1])
		if okA && okB && !next[pair] && length >= visible {
			t.Errorf("%s and %s share %.0f of border but are no neighbours", pair[0], pair[1], length)
		}
	}
}

func key(a, b string) [2]string { return [2]string{min(a, b), max(a, b)} }
