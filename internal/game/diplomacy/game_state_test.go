package diplomacy

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPhases plays orders and looks at which phase comes next, and who owns what then.
func TestPhases(t *testing.T) {
	t.Parallel()
	seventeen := []string{"PAR", "BRE", "MAR", "SPA", "POR", "BEL", "HOL", "MUN", "KIE", "BER", "DEN", "LON", "EDI", "LVP",
		"ROM", "VEN", "NAP"}
	for _, tt := range []struct {
		name   string
		start  Position
		orders map[string][]string
		next   string
		winner string
	}{
		{"spring without retreats", Position{Phase: "S1901M"}, nil, "F1901M", ""},
		{
			"a dislodged unit with a retreat",
			Position{Phase: "S1901M", Units: map[string][]string{"FRANCE": {"A PAR", "A PIC"}, "ITALY": {"A BUR"}}},
			map[string][]string{"FRANCE": {"A PAR - BUR", "A PIC S A PAR - BUR"}}, "S1901R", "",
		},
		{
			"a dislodged unit without any",
			Position{Phase: "S1901M", Units: map[string][]string{"FRANCE": {"F MAO", "F ENG", "A PIC", "A GAS", "A PAR"},
				"ITALY": {"F BRE"}}},
			map[string][]string{"FRANCE": {"F MAO - BRE", "A PIC S F MAO - BRE"}}, "F1901M", "",
		},
		{
			"fall, nothing to build", Position{
				Phase: "F1901M", Units: map[string][]string{"FRANCE": {"A PAR"}}, Centers: map[string][]string{"FRANCE": {"PAR"}},
			}, nil, "S1902M", "",
		},
		{
			"fall, a centre taken but no home free", Position{
				Phase: "F1901M", Units: map[string][]string{"FRANCE": {"A MUN", "A PAR"}},
				Centers: map[string][]string{"FRANCE": {"PAR"}},
			}, map[string][]string{"FRANCE": {}}, "S1902M", "",
		},
		{
			"fall, a build", Position{
				Phase: "F1901M", Units: map[string][]string{"FRANCE": {"A GAS", "A BUR"}},
				Centers: map[string][]string{"FRANCE": {"PAR", "MAR"}},
			}, map[string][]string{"FRANCE": {"A GAS - SPA"}}, "W1901A", "",
		},
		{
			"fall, a removal", Position{
				Phase: "F1901M", Units: map[string][]string{"FRANCE": {"A BUR"}},
			}, nil, "W1901A", "",
		},
		{
			"the eighteenth centre", Position{
				Phase: "F1901M", Units: map[string][]string{"FRANCE": {"A SIL"}}, Centers: map[string][]string{"FRANCE": seventeen},
			}, map[string][]string{"FRANCE": {"A SIL - WAR"}}, "COMPLETED", "FRANCE",
		},
		{
			"the eighteenth centre in spring does not count", Position{
				Phase: "S1901M", Units: map[string][]string{"FRANCE": {"A SIL"}}, Centers: map[string][]string{"FRANCE": seventeen},
			}, map[string][]string{"FRANCE": {"A SIL - WAR"}}, "F1901M", "",
		},
		{"an end stays an end", Position{Phase: "COMPLETED"}, nil, "COMPLETED", ""},
	} {
		s := mustState(t, tt.start)
		out := NewAdjudicator(Standard()).Process(s, ordersFrom(t, s, tt.orders))
		if got := out.Next.Phase().String(); got != tt.next {
			t.Errorf("%s: next phase %s, want %s", tt.name, got, tt.next)
		}
		winner := ""
		if p := out.Next.Winner(); p != NoPower {
			winner = Standard().PowerName(p)
		}
		if winner != tt.winner || out.Next.Done() != (tt.next == "COMPLETED") {
			t.Errorf("%s: winner %q and done %t, want %q", tt.name, winner, out.Next.Done(), tt.winner)
		}
	}
}

func TestProcessGoesOnFromItsOwnOutcome(t *testing.T) {
	t.Parallel()
	m := Standard()
	a, b, g := NewAdjudicator(m), NewAdjudicator(m), NewGenerator(m)
	r := rand.New(rand.NewPCG(7, 7))
	s, next := NewGame(m), NewGame(m)
	for range 60 {
		orders := randomOrders(r, g.Options(s))
		s = a.Process(s, orders).Next.Clone()
		next = &b.Process(next, orders).Next
		if *s != *next {
			t.Fatalf("%v: going on from the outcome leads elsewhere than from a copy of it", s.Phase())
		}
	}
}

// Where no power can ever act again the calendar still goes on, one call at a time, and nobody wins.
func TestBarrenPositionsGoOn(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]Position{
		"nothing at all": {Phase: "S1901M"},
		"centres, but no home and unit": {Phase: "F1901M",
			Centers: map[string][]string{"TURKEY": {"PAR"}, "FRANCE": {"CON"}}},
		"retreats of nobody":    {Phase: "F1901R"},
		"adjustments of nobody": {Phase: "W1901A"},
	} {
		s, a := mustState(t, p), NewAdjudicator(Standard())
		for range 12 {
			before := s.Phase()
			s = a.Process(s, nil).Next.Clone()
			if now := s.Phase(); now.Type != Movement || now == before || s.Done() || s.Winner() != NoPower {
				t.Errorf("%s: %v comes to %v", name, before, now)
			}
			for _, o := range NewGenerator(Standard()).Options(s) {
				if len(o.Sites) > 0 || s.MustAct(o.Power) {
					t.Errorf("%s: %v may act in %v", name, o.Power, s.Phase())
				}
			}
		}
	}
}

func TestNobodyWinsATie(t *testing.T) {
	t.Parallel()
	m, err := LoadMap([]byte(island))
	if err != nil {
		t.Fatal(err)
	}
	m.victory = 1
	s := NewGame(m)
	if got := s.Winner(); got != NoPower {
		t.Errorf("with one centre each %s wins", m.PowerName(got))
	}
}

func TestPhaseNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"S1901M", "S1901R", "F1901M", "F1901R", "W1901A", "S1M", "COMPLETED"} {
		p, err := ParsePhase(name)
		if err != nil || p.String() != name {
			t.Errorf("%s: got %v, %v", name, p, err)
		}
	}
	for _, name := range []string{"", "S", "SM", "S1901A", "W1901M", "F1901A", "X1901M", "S-1M", "S99999M",
		"S19 1M", "completed"} {
		if p, err := ParsePhase(name); err == nil {
			t.Errorf("%q: got %v, want an error", name, p)
		}
	}
}

func TestOptionsOfAdjustments(t *testing.T) {
	t.Parallel()
	s := mustState(t, Position{
		Phase: "W1901A",
		Units: map[string][]string{"RUSSIA": {"A MOS"}, "FRANCE": {"A PAR", "F BRE"}},
		Centers: map[string][]string{
			"RUSSIA": {"MOS", "STP", "SEV", "RUM", "SWE"}, "FRANCE": {"PAR"}, "TURKEY": {"GRE"},
		},
	})
	m := s.Map()
	options := NewGenerator(m).Options(s)
	for _, tt := range []struct {
		power string
		count int
		waive bool
		want  []string
	}{
		{"RUSSIA", 2, true, []string{"A SEV B", "F SEV B", "A STP B", "F STP/NC B", "F STP/SC B"}},
		{"FRANCE", 1, false, []string{"A PAR D", "F BRE D"}},
		{"TURKEY", 0, false, nil}, // a centre to build for, but no home
		{"ITALY", 0, false, nil},
	} {
		p, _ := m.PowerByName(tt.power)
		o := options[p]
		var got []string
		for _, site := range o.Sites {
			for _, order := range site.Orders {
				got = append(got, m.OrderString(order))
			}
		}
		if o.Count != tt.count || o.MayWaive != tt.waive || !slices.Equal(got, tt.want) || s.MustAct(p) != (tt.count > 0) {
			t.Errorf("%s: %d of %v, waive %t; want %d of %v", tt.power, o.Count, got, o.MayWaive, tt.count, tt.want)
		}
	}
}
