package diplomacy

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
)

func TestStateSurvivesJSON(t *testing.T) {
	t.Parallel()
	m, a := Standard(), NewAdjudicator(Standard())
	for _, rec := range readGames(t)[:8] {
		for _, p := range rec.Phases {
			s := mustState(t, p.Position)
			if s.Phase().Type == Movement { // reach a state that has history and dislodged units
				s = a.Process(s, ordersFrom(t, s, p.Orders)).Next.Clone()
			}
			data, err := MarshalState(s)
			if err != nil {
				t.Fatal(err)
			}
			back, err := UnmarshalState(m, data)
			if err != nil {
				t.Fatal(err)
			}
			if *back != *s {
				t.Errorf("%s %s: %s came back as another state", rec.ID, p.Phase, data)
			}
		}
	}
}

func TestStartAsPythonWritesIt(t *testing.T) {
	t.Parallel()
	data, err := MarshalState(NewGame(Standard()))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]json.RawMessage
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"name":           `"S1901M"`,
		"note":           `""`,
		"timestamp":      `0`,
		"map":            `"standard"`,
		"units":          `{"AUSTRIA":["A BUD","A VIE","F TRI"],"ENGLAND":["A LVP","F EDI","F LON"],"FRANCE":["A MAR","A PAR","F BRE"],"GERMANY":["A BER","A MUN","F KIE"],"ITALY":["A ROM","A VEN","F NAP"],"RUSSIA":["A MOS","A WAR","F SEV","F STP/SC"],"TURKEY":["A CON","A SMY","F ANK"]}`,
		"retreats":       `{"AUSTRIA":{},"ENGLAND":{},"FRANCE":{},"GERMANY":{},"ITALY":{},"RUSSIA":{},"TURKEY":{}}`,
		"influence":      `{"AUSTRIA":["BUD","TRI","VIE"],"ENGLAND":["EDI","LON","LVP"],"FRANCE":["BRE","MAR","PAR"],"GERMANY":["BER","KIE","MUN"],"ITALY":["NAP","ROM","VEN"],"RUSSIA":["MOS","SEV","STP","WAR"],"TURKEY":["ANK","CON","SMY"]}`,
		"civil_disorder": `{"AUSTRIA":0,"ENGLAND":0,"FRANCE":0,"GERMANY":0,"ITALY":0,"RUSSIA":0,"TURKEY":0}`,
	} {
		if string(got[key]) != want {
			t.Errorf("%s: got %s, want %s", key, got[key], want)
		}
	}
}

// TestSavedGame plays a recorded game, saves it, and replays what was saved.
func TestSavedGame(t *testing.T) {
	t.Parallel()
	m, a := Standard(), NewAdjudicator(Standard())
	for _, rec := range readGames(t)[:4] {
		g := NewSavedGame(m, rec.ID)
		s := mustState(t, rec.Phases[0].Position)
		for _, p := range rec.Phases[:len(rec.Phases)-1] {
			orders := ordersFrom(t, s, p.Orders)
			out := a.Process(s, orders)
			g.Add(s, orders, out)
			s = out.Next.Clone()
		}
		g.Finish(s)
		data, err := json.Marshal(g)
		if err != nil {
			t.Fatal(err)
		}
		var back SavedGame
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		saved, err := back.Record(m)
		if err != nil {
			t.Fatal(err)
		}
		if report := a.Replay(saved); len(report.Mismatches) > 0 || report.Phases != len(rec.Phases)-1 {
			t.Errorf("%s: %d phases, mismatches %v", rec.ID, report.Phases, report.Mismatches)
		}
	}
}

func TestSavedResults(t *testing.T) {
	t.Parallel()
	a := NewAdjudicator(Standard())
	g := NewSavedGame(Standard(), "results")
	s := mustState(t, Position{
		Phase: "F1901M",
		Units: map[string][]string{"FRANCE": {"A PIE", "A TYR", "A PAR"},
			"ITALY": {"A VEN", "F ADR", "F APU", "A ROM", "A TRI"}},
		Centers: map[string][]string{"FRANCE": {"PAR", "MAR", "BRE", "SPA"}, "ITALY": {"ROM", "NAP"}},
	})
	for _, texts := range []map[string][]string{
		{"FRANCE": {"A TYR - VEN", "A PIE S A TYR - VEN", "A PAR - PIC"},
			"ITALY": {"A ROM - TUS", "A TRI - BUD", "A VEN S F ADR - TRI"}},
		{"ITALY": {"A VEN R ROM"}},
		{"FRANCE": {"A BRE B", "WAIVE"}, "ITALY": {"F APU D"}},
	} {
		orders := ordersFrom(t, s, texts)
		out := a.Process(s, orders)
		g.Add(s, orders, out)
		s = out.Next.Clone()
	}
	for i, want := range []map[string][]string{
		{"A TYR": {}, "A VEN": {"void", "dislodged"}, "A PAR": {}},
		{"A VEN": {""}},
		{"A BRE": {""}, "F APU": {""}},
	} {
		for unit, words := range want {
			if got, there := g.Phases[i].Results[unit]; !there || !slices.Equal(got, words) {
				t.Errorf("%s %s: got %q, want %q", g.Phases[i].Name, unit, got, words)
			}
		}
	}
}

// MarshalState writes s as the python package does. Equal states give equal bytes.
func MarshalState(s *State) ([]byte, error) {
	data, err := json.Marshal(s.Snapshot())
	if err != nil {
		return nil, fmt.Errorf("write state: %w", err)
	}
	return data, nil
}

// UnmarshalState reads a state that MarshalState or the python package wrote for a game on m.
func UnmarshalState(m *Map, data []byte) (*State, error) {
	var snap Snapshot
	if err := json.Unmarshal(data, &snap); err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	return m.Restore(snap)
}
