package diplomacy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// oraclePosition is a real position with every unit's legal orders as the python package lists them: in full for some
// positions, and for all as the SHA-256 of the sorted lines.
type oraclePosition struct {
	Game  string              `json:"game"`
	Phase string              `json:"phase"`
	Units map[string][]string `json:"units"`
	Legal map[string]struct {
		SHA256 string   `json:"sha256"`
		Orders []string `json:"orders"`
	} `json:"legal"`
}

func readOracle(tb testing.TB) []oraclePosition {
	return readLines[oraclePosition](tb, openData(tb, "legal_orders_positions.jsonl", "legal_orders_positions.jsonl.gz"))
}

// legalTexts is every unit's legal orders, sorted, by unit.
func legalTexts(m *Map, options []Options) map[string][]string {
	texts := map[string][]string{}
	for _, o := range options {
		for _, site := range o.Sites {
			var list []string
			for _, order := range site.Orders {
				list = append(list, m.OrderString(order))
			}
			slices.Sort(list)
			texts[m.UnitString(site.Unit)] = list
		}
	}
	return texts
}

func TestLegalOrdersEqualOracle(t *testing.T) {
	t.Parallel()
	positions, units, equal := readOracle(t), 0, 0
	g := NewGenerator(Standard())
	for _, p := range positions {
		s := mustState(t, Position{Phase: p.Phase, Units: p.Units})
		got := legalTexts(Standard(), g.Options(s))
		for unit, want := range p.Legal {
			units++
			sum := sha256.Sum256([]byte(strings.Join(got[unit], "\n")))
			if hex.EncodeToString(sum[:]) == want.SHA256 {
				equal++
				continue
			}
			t.Errorf("%s %s %s:\n got %v\nwant %v", p.Game, p.Phase, unit, got[unit], want.Orders)
		}
		if len(got) != len(p.Legal) {
			t.Errorf("%s %s: orders for %d units, want %d", p.Game, p.Phase, len(got), len(p.Legal))
		}
	}
	t.Logf("legal orders: %d of %d units equal in %d positions", equal, units, len(positions))
}

func TestLegalOrdersAtStart(t *testing.T) {
	t.Parallel()
	var want struct {
		Powers map[string]struct {
			Total int
			Units map[string]struct{ Orders []string }
		}
	}
	if err := json.NewDecoder(openData(t, "legal_orders_s1901m.json",
		"legal_orders_s1901m.json")).Decode(&want); err != nil {
		t.Fatal(err)
	}
	m := Standard()
	for p, o := range NewGenerator(m).Options(NewGame(m)) {
		power, total := want.Powers[m.PowerName(Power(p))], 0
		for unit, got := range legalTexts(m, []Options{o}) {
			total += len(got)
			if !slices.Equal(got, power.Units[unit].Orders) {
				t.Errorf("%s: got %v, want %v", unit, got, power.Units[unit].Orders)
			}
		}
		if total != power.Total {
			t.Errorf("%s: %d orders, want %d", m.PowerName(Power(p)), total, power.Total)
		}
	}
}
