package diplomacy

import (
	"errors"
	"testing"
)

// parsePosition has a fleet that could convoy, one on a coast, an army to be convoyed and an enemy.
func parsePosition(tb testing.TB) *State {
	return mustState(tb, Position{
		Phase: "S1902M",
		Units: map[string][]string{
			"ENGLAND": {"A LON", "F NTH", "F STP/NC", "F POR", "A YOR"},
			"FRANCE":  {"A PAR", "A MAR", "F MAO", "F GAS"},
		},
	})
}

func TestParseOrder(t *testing.T) {
	t.Parallel()
	s := parsePosition(t)
	for _, tt := range []struct{ power, text, want string }{
		{"FRANCE", "A PAR H", "A PAR H"},
		{"FRANCE", "a par holds.", "A PAR H"},
		{"FRANCE", "A PAR - BUR", "A PAR - BUR"},
		{"FRANCE", "A PAR-BUR", "A PAR - BUR"},
		{"FRANCE", "A PAR -> BUR", "A PAR - BUR"},
		{"FRANCE", "A PAR → BUR", "A PAR - BUR"},
		{"FRANCE", "A PAR M BUR", "A PAR - BUR"},
		{"FRANCE", "A PAR MOVE BUR", "A PAR - BUR"},
		{"FRANCE", "Army Paris to Burgundy", "A PAR - BUR"},
		{"FRANCE", "army paris moves to burgundy", "A PAR - BUR"},
		{"FRANCE", "Paris - Burgundy", "A PAR - BUR"},
		{"FRANCE", "PAR S MAR - BUR", "A PAR S A MAR - BUR"},
		{"FRANCE", "A PAR SUPPORTS A MAR TO BUR", "A PAR S A MAR - BUR"},
		{"FRANCE", "A MAR S F GAS", "A MAR S F GAS"},
		{"FRANCE", "A MAR SUPPORT F GAS HOLD", "A MAR S F GAS"},
		{"FRANCE", "F GAS - SPA", "F GAS - SPA/NC"},
		{"FRANCE", "F GAS - SPA(NC)", "F GAS - SPA/NC"},
		{"FRANCE", "F GAS - Spain (north coast)", "F GAS - SPA/NC"},
		{"FRANCE", "F Mid-Atlantic Ocean - Spain south coast", "F MAO - SPA/SC"},
		{"FRANCE", "F mid atlantic - spa/sc", "F MAO - SPA/SC"},
		{"FRANCE", "A MAR - SPA/NC", "A MAR - SPA"},
		{"FRANCE", "F MAO S F GAS - SPA", "F MAO S F GAS - SPA"},
		{"ENGLAND", "F STP - BAR", "F STP/NC - BAR"},
		{"ENGLAND", "F STP/SC - BAR", "F STP/NC - BAR"},
		{"ENGLAND", "Fleet St. Petersburg (nc) to Barents Sea", "F STP/NC - BAR"},
		{"ENGLAND", "F STP-NC - NWY", "F STP/NC - NWY"},
		{"ENGLAND", "A LON - BEL", "A LON - BEL VIA"},
		{"ENGLAND", "A LON - BEL VIA", "A LON - BEL VIA"},
		{"ENGLAND", "A LON - BEL VIA CONVOY", "A LON - BEL VIA"},
		{"ENGLAND", "A LON to Belgium by convoy", "A LON - BEL VIA"},
		{"ENGLAND", "A LON - NTH - BEL", "A LON - BEL VIA"},
		{"ENGLAND", "A LON - YOR", "A LON - YOR"},
		{"ENGLAND", "A LON - YOR VIA", "A LON - YOR VIA"},
		{"ENGLAND", "A LON - WAL VIA", "A LON - WAL"},
		{"ENGLAND", "F NTH C A LON - BEL", "F NTH C A LON - BEL"},
		{"ENGLAND", "Fleet North Sea convoys Army London to Belgium", "F NTH C A LON - BEL"},
		{"ENGLAND", "F NTH C LON - BEL VIA", "F NTH C A LON - BEL"},
	} {
		p, _ := s.Map().PowerByName(tt.power)
		o, err := s.ParseOrder(p, tt.text)
		if err != nil {
			t.Errorf("%q: %v", tt.text, err)
			continue
		}
		if got := s.Map().OrderString(o); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.text, got, tt.want)
		}
	}
}

func TestParseOrderGivesTheReason(t *testing.T) {
	t.Parallel()
	s := parsePosition(t)
	for _, tt := range []struct {
		text string
		want error
	}{
		{"", ErrNotOrder},
		{"A PAR", ErrNotOrder},
		{"A PAR BUR", ErrNotOrder},
		{"A PAR - ", ErrNotOrder},
		{"A PAR - NARNIA", ErrNotOrder},
		{"A PAR - SWI", ErrNotOrder},
		{"A PAR - LIV", ErrNotOrder}, // Liverpool or Livonia
		{"A PAR - BUR A", ErrNotOrder},
		{"A PAR H A MAR H", ErrNotOrder},
		{"F GAS - BRE/NC", ErrNotOrder},
		{"/NC", ErrNotOrder},
		{"F MAO C A PAR", ErrNotOrder},
		{"BUILD PAR", ErrNotOrder},
		{"A PAR D", FaultWrongPhase},
		{"A PAR B", FaultWrongPhase},
		{"A PAR R BUR", FaultWrongPhase},
		{"WAIVE", FaultWrongPhase},
		{"A BUR H", FaultNoUnit},
		{"A LON H", FaultNotYours},
		{"F PAR H", FaultWrongKind},
		{"A PAR - MUN", FaultUnreachable},
		{"A PAR - PAR", FaultStaysPut},
		{"F MAO - SPA", FaultNeedsCoast},
		{"A MAR - LON", FaultNoConvoy},
		{"A PAR S A PAR", FaultSupportsItself},
		{"A PAR S A BUR", FaultNoSuchTarget},
		{"A PAR S F MAR - BUR", FaultNoSuchTarget},
		{"A PAR S A MAR", FaultSupportOutOfReach},
		{"A MAR S A PAR - PIC", FaultSupportOutOfReach},
		{"A PAR S F MAO - PIC", FaultTargetOutOfReach},
		{"F GAS C A MAR - SPA", FaultNotAtSea},
		{"F MAO C F GAS - POR", FaultCargoNotArmy},
		{"F MAO C A PAR - POR", FaultCargoNotArmy},
		{"F MAO C A MAR - LON", FaultNotInChain},
	} {
		france, _ := s.Map().PowerByName("FRANCE")
		if o, err := s.ParseOrder(france, tt.text); !errors.Is(err, tt.want) {
			t.Errorf("%q: got %v and %v, want %v", tt.text, o, err, tt.want)
		}
	}
}

func TestParseRetreatsAndAdjustments(t *testing.T) {
	t.Parallel()
	retreats := mustState(t, Position{
		Phase:     "F1902R",
		Units:     map[string][]string{"FRANCE": {"A PAR"}},
		Dislodged: map[string]map[string][]string{"ITALY": {"A VEN": {"APU", "TUS"}, "F MAO": {"SPA/SC", "WES"}}},
	})
	builds := mustState(t, Position{
		Phase: "W1902A",
		Units: map[string][]string{"RUSSIA": {"A MOS"}, "FRANCE": {"A PAR", "F BRE"}},
		Centers: map[string][]string{
			"RUSSIA": {"MOS", "STP", "SEV", "RUM"}, "FRANCE": {"PAR"}, "ITALY": {"WAR"},
		},
	})
	for _, tt := range []struct {
		s           *State
		power, text string
		want        string
		fault       error
	}{
		{retreats, "ITALY", "A VEN R APU", "A VEN R APU", nil},
		{retreats, "ITALY", "A VEN - TUS", "A VEN R TUS", nil},
		{retreats, "ITALY", "A VEN retreats to Tuscany", "A VEN R TUS", nil},
		{retreats, "ITALY", "F MAO R SPA", "F MAO R SPA/SC", nil},
		{retreats, "ITALY", "A VEN DISBAND", "A VEN D", nil},
		{retreats, "ITALY", "DISBAND A VEN", "A VEN D", nil},
		{retreats, "ITALY", "A VEN R ROM", "A VEN R ROM", FaultNoRetreat},
		{retreats, "ITALY", "A VEN H", "A VEN H", FaultWrongPhase},
		{retreats, "FRANCE", "A PAR D", "A PAR D", FaultNoUnit},
		{builds, "RUSSIA", "A SEV B", "A SEV B", nil},
		{builds, "RUSSIA", "build fleet St Petersburg south coast", "F STP/SC B", nil},
		{builds, "RUSSIA", "A STP/NC B", "A STP B", nil},
		{builds, "RUSSIA", "WAIVE", "WAIVE", nil},
		{builds, "RUSSIA", "F STP B", "F STP B", FaultNeedsCoast},
		{builds, "RUSSIA", "A MOS B", "A MOS B", FaultHomeTaken},
		{builds, "RUSSIA", "A RUM B", "A RUM B", FaultNotHome},
		{builds, "RUSSIA", "A WAR B", "A WAR B", FaultNotOwned},
		{builds, "RUSSIA", "F MOS D", "F MOS D", FaultNothingDue},
		{builds, "FRANCE", "REMOVE A PAR", "A PAR D", nil},
		{builds, "FRANCE", "F BRE D", "F BRE D", nil},
		{builds, "FRANCE", "A MAR D", "A MAR D", FaultNoUnit},
		{builds, "FRANCE", "WAIVE", "WAIVE", FaultNothingDue},
	} {
		p, _ := tt.s.Map().PowerByName(tt.power)
		o, err := tt.s.ParseOrder(p, tt.text)
		if !errors.Is(err, tt.fault) || (tt.fault == nil) != (err == nil) {
			t.Errorf("%q: got error %v, want %v", tt.text, err, tt.fault)
			continue
		}
		if got := tt.s.Map().OrderString(o); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.text, got, tt.want)
		}
	}
}

func BenchmarkParseOrder(b *testing.B) {
	s := parsePosition(b)
	france, _ := s.Map().PowerByName("FRANCE")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.ParseOrder(france, "A PAR S A MAR - BUR"); err != nil {
			b.Fatal(err)
		}
	}
}
