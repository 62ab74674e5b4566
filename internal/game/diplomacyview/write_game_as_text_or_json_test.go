package diplomacyview

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/game/diplomacy"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("not as in %s:\n%s", file, got)
	}
}

// opening is a short game with everything to be seen in it: supports, a cut, a bounce, a convoy, a dislodged unit, a
// retreat, builds and a removal.
func opening(tb testing.TB) *diplomacy.SavedGame {
	tb.Helper()
	m := diplomacy.Standard()
	adjudicator := diplomacy.NewAdjudicator(m)
	game, s := diplomacy.NewSavedGame(m, "opening"), diplomacy.NewGame(m)
	for _, phase := range []map[string][]string{
		{
			"ENGLAND": {"F LON - NTH", "F EDI - NWG", "A LVP - YOR"},
			"FRANCE":  {"A PAR - BUR", "A MAR S A PAR - BUR", "F BRE - MAO"},
			"GERMANY": {"A MUN - BUR", "A BER - KIE", "F KIE - DEN"}, "AUSTRIA": {"A VIE - TRI", "F TRI - ALB", "A BUD - SER"},
			"ITALY": {"A VEN - TRI", "A ROM - VEN", "F NAP - ION"}, "RUSSIA": {"F SEV - BLA", "A WAR - GAL", "A MOS - UKR",
				"F STP/SC - BOT"},
			"TURKEY": {"F ANK - BLA", "A CON - BUL", "A SMY - CON"},
		},
		{
			"ENGLAND": {"A YOR - NWY VIA", "F NTH C A YOR - NWY", "F NWG S A YOR - NWY"},
			"FRANCE":  {"A BUR - MUN", "A MAR - SPA", "F MAO - POR"},
			"GERMANY": {"A MUN H", "A KIE S A MUN", "F DEN - SWE"},
			"AUSTRIA": {"A SER - GRE", "F ALB S A SER - GRE", "A VIE - TRI"},
			"ITALY":   {"A VEN H", "F ION - TUN"},
			"RUSSIA":  {"F SEV S A UKR - RUM", "A UKR - RUM", "A GAL - VIE", "F BOT - SWE"},
			"TURKEY":  {"A BUL - RUM", "A CON - BUL", "F ANK - BLA"},
		},
		{
			"ENGLAND": {"F LON B"}, "FRANCE": {"A PAR B", "WAIVE"}, "ITALY": {"F NAP B"}, "RUSSIA": {"A MOS B"},
			"TURKEY": {"F SMY B"},
		},
		{
			"RUSSIA": {"A VIE S A VEN - TRI", "A RUM - BUD", "F SEV - RUM"}, "AUSTRIA": {"A TRI S A GRE - SER", "A GRE - BUL"},
			"FRANCE": {"A BUR - MUN", "A PAR - BUR"}, "GERMANY": {"A MUN - TYR", "A KIE - MUN"},
			"ITALY": {"A VEN - TRI", "A ROM - VEN"},
		},
		{"AUSTRIA": {"A TRI R SER"}},
		{"TURKEY": {"A BUL - SER", "A CON - BUL"}},
		{"AUSTRIA": {"F ALB D"}, "RUSSIA": {"A WAR B"}, "ITALY": {"WAIVE"}},
	} {
		orders := make([][]diplomacy.Order, len(m.Powers()))
		for name, list := range phase {
			p, _ := m.PowerByName(name)
			for _, text := range list {
				o, err := s.ParseOrder(p, text)
				if err != nil {
					tb.Fatalf("%s: %v", s.Phase(), err)
				}
				orders[p] = append(orders[p], o)
			}
		}
		out := adjudicator.Process(s, orders)
		game.Add(s, orders, out)
		s = out.Next.Clone()
	}
	game.Finish(s)
	return game
}

func TestShow(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		file string
		o    ShowOptions
	}{
		{"show.txt", ShowOptions{}},
		{"show-narrow.txt", ShowOptions{Width: 60, Phase: "f1901m"}},
		{"show-color.txt", ShowOptions{Color: true, Phase: "S1901M"}},
	} {
		t.Run(tt.file, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			if err := Show(&b, opening(t), tt.o); err != nil {
				t.Fatal(err)
			}
			golden(t, tt.file, b.Bytes())
		})
	}
}

func TestShowJSONIsTheSavedGame(t *testing.T) {
	t.Parallel()
	var a, b bytes.Buffer
	if err := Show(&a, opening(t), ShowOptions{Format: JSON}); err != nil {
		t.Fatal(err)
	}
	var game diplomacy.SavedGame
	if err := json.Unmarshal(a.Bytes(), &game); err != nil {
		t.Fatal(err)
	}
	if err := Show(&b, &game, ShowOptions{Format: JSON}); err != nil {
		t.Fatal(err)
	}
	if a.String() != b.String() {
		t.Error("a game that was read again is written differently")
	}
}

func TestShowFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		change func(*diplomacy.SavedGame, *ShowOptions)
		want   string
	}{
		{func(_ *diplomacy.SavedGame, o *ShowOptions) { o.Format = "yaml" }, `"yaml" is neither`},
		{func(_ *diplomacy.SavedGame, o *ShowOptions) { o.Phase = "S1999M" }, "no phase S1999M"},
		{func(g *diplomacy.SavedGame, _ *ShowOptions) { g.Phases[1].State.Units["ITALY"] = []string{"A XYZ"} }, "F1901M"},
		{func(g *diplomacy.SavedGame, _ *ShowOptions) {
			g.Phases[0].Orders["ATLANTIS"] = []string{"A XYZ H"}
		}, `no power "ATLANTIS"`},
	} {
		game, o := opening(t), ShowOptions{}
		tt.change(game, &o)
		if err := Show(&bytes.Buffer{}, game, o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want an error with %q", err, tt.want)
		}
	}
}
