package diplomacy

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"
)

// datcCase is one case of the Diplomacy Adjudicator Test Cases, or a regression case of another implementation.
type datcCase struct {
	ID       string              `json:"id"`
	Part     string              `json:"part"`
	Title    string              `json:"title"`
	Edition  string              `json:"datc"`
	Units    map[string][]string `json:"units"`
	Centers  map[string][]string `json:"centers"`
	Phase    string              `json:"phase"`
	Disputed bool                `json:"disputed"`
	Steps    []datcStep          `json:"steps"`
}

type datcStep struct {
	Phase  string              `json:"phase"`
	Orders map[string][]string `json:"orders"`
	Expect struct {
		Units     map[string][]string            `json:"units"`
		Dislodged map[string]map[string][]string `json:"dislodged"`
		Results   map[string][]string            `json:"results"`
	} `json:"expect"`
}

// ourChoice is what we do in the disputed cases, as docs/diplomacy-rules.md explains: "stated" is the outcome of the
// case, else the units are given.
var ourChoice = map[string]map[string][]string{
	// Rules of 2000: a convoy that nobody ordered is no convoy, so the army walks. Edition 3.0: the move fails.
	"6.G.8": {"ENGLAND": {"A KIE", "F HEL"}, "FRANCE": {"A HOL"}},
	// Rules of 2000: the convoying fleet is its own, so the army goes by sea and into the paradox. Edition 3.0: by
	// land.
	"6.G.11/implicit": {"ENGLAND": {"F NWY", "F SKA"}, "RUSSIA": {"A SWE", "F BAR"}},
	// A fleet that the chain does not need shows no intent (as in the 2023 rules), so the armies bounce. 1971: they
	// swap.
	"6.G.19/1971": {"FRANCE": {"A MAR", "F WES"}, "ITALY": {"A SPA", "F LYO"}},
	// Civil disorder counts the distance to the home centres. Rules of 2023: to any owned centre.
	"6.J.3/2023":  {"RUSSIA": {"A PRU"}},
	"6.J.6/2023":  {"RUSSIA": {"F BOT"}},
	"6.J.9/2023b": {"RUSSIA": {"A SEV", "F SKA"}},
	"6.J.10/2023": {"ITALY": {"A PIE"}},
	"6.J.11/2023": {"ITALY": {"A TUS"}},
}

func (c *datcCase) name() string {
	if c.Part == "" {
		return c.ID
	}
	return c.ID + "/" + c.Part
}

func TestDATC(t *testing.T) {
	t.Parallel()
	var f struct{ Cases []datcCase }
	if err := json.NewDecoder(openData(t, "datc.json", "datc.json.gz")).Decode(&f); err != nil {
		t.Fatal(err)
	}
	a := NewAdjudicator(Standard())
	passed, total, all, disputed := map[string]int{}, map[string]int{}, 0, 0
	for _, c := range f.Cases {
		edition := c.Edition
		if c.Disputed {
			edition, disputed = "disputed, as documented", disputed+1
		}
		total[edition]++
		if t.Run(c.name(), func(t *testing.T) { c.run(t, a) }) {
			passed[edition]++
			all++
		}
	}
	for _, edition := range slices.Sorted(maps.Keys(total)) {
		t.Logf("DATC %s: %d of %d cases pass", edition, passed[edition], total[edition])
	}
	t.Logf("DATC and regression cases in all: %d of %d pass", all, len(f.Cases))
	if disputed != len(ourChoice) {
		t.Errorf("%d disputed cases, but %d choices", disputed, len(ourChoice))
	}
}

func (c *datcCase) run(t *testing.T, a *Adjudicator) {
	s := mustState(t, Position{Phase: c.Phase, Units: c.Units, Centers: c.Centers})
	for _, step := range c.Steps {
		if s.Phase().String() != step.Phase {
			t.Errorf("%s: phase %v, want %s", c.Title, s.Phase(), step.Phase)
		}
		want := step.Expect.Units
		if c.Disputed {
			want = ourChoice[c.name()]
		}
		out := a.Process(s, ordersFrom(t, s, step.Orders))
		if got := out.Next.Position().Units; !sameLists(got, want) {
			t.Errorf("%s: orders %v\n got %v\nwant %v", c.Title, step.Orders, got, want)
		}
		if !c.Disputed {
			checkDislodged(t, out, step.Expect.Dislodged)
			checkResults(t, out, step.Expect.Results)
		}
		s = out.Next.Clone()
	}
}

// ordersFrom parses what every power orders. Orders against the rules are kept: the adjudicator voids them.
func ordersFrom(tb testing.TB, s *State, texts map[string][]string) [][]Order {
	tb.Helper()
	m := s.Map()
	orders := make([][]Order, len(m.Powers()))
	for name, list := range texts {
		p, ok := m.PowerByName(name)
		if !ok {
			tb.Fatalf("no power %s", name)
		}
		for _, text := range list {
			o, err := s.ParseOrder(p, text)
			if errors.Is(err, ErrNotOrder) {
				tb.Errorf("%v", err)
				continue
			}
			orders[p] = append(orders[p], o)
		}
	}
	return orders
}

// sameLists compares by power without regard to order; no list and an empty one are the same.
func sameLists(got, want map[string][]string) bool {
	for name := range maps.Keys(want) {
		if !slices.Equal(slices.Sorted(slices.Values(got[name])), slices.Sorted(slices.Values(want[name]))) {
			return false
		}
	}
	for name, list := range got {
		if len(list) > 0 && len(want[name]) == 0 {
			return false
		}
	}
	return true
}

// checkDislodged compares the dislodged units and their retreats; one without a retreat is destroyed.
func checkDislodged(t *testing.T, out *Outcome, want map[string]map[string][]string) {
	t.Helper()
	m, got := Standard(), map[string]map[string][]string{}
	for name, units := range out.Next.Position().Dislodged {
		got[name] = units
	}
	for _, u := range out.Destroyed {
		name := m.PowerName(u.Power)
		if got[name] == nil {
			got[name] = map[string][]string{}
		}
		got[name][m.UnitString(u)] = []string{}
	}
	if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Errorf("dislodged %v, want %v", got, want)
	}
}

// checkResults looks for the result words that the python package's tests ask for. They ask for words among others,
// except that "ok" is no word at all; and they name units that need not be there.
func checkResults(t *testing.T, out *Outcome, want map[string][]string) {
	t.Helper()
	m := Standard()
	for text, words := range want {
		o, err := ParseOrder(m, text+" H")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		there := false
		for _, u := range out.Units {
			if m.Province(u.Unit.Place) != m.Province(o.Place) {
				continue
			}
			there = true
			got = append(got, u.Result.Words()...)
			if u.Result == 0 {
				got = append(got, "ok")
			}
		}
		for _, w := range words {
			if there && !slices.Contains(got, w) {
				t.Errorf("%s: results %v, want %v", text, got, words)
			}
		}
	}
}
