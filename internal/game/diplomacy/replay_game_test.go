package diplomacy

import "testing"

func readGames(tb testing.TB) []Record {
	tb.Helper()
	var games []Record
	for rec, err := range ReadRecords(openData(tb, "real_games_dev.jsonl", "real_games.jsonl.gz")) {
		if err != nil {
			tb.Fatal(err)
		}
		games = append(games, rec)
	}
	return games
}

func TestReplayRealGames(t *testing.T) {
	t.Parallel()
	a := NewAdjudicator(Standard())
	games, phases, good, retreats := 0, 0, 0, 0
	for _, rec := range readGames(t) {
		report := a.Replay(rec)
		games++
		phases += report.Phases
		if len(report.Mismatches) == 0 {
			good++
		}
		for _, p := range rec.Phases {
			for _, units := range p.Dislodged {
				retreats += len(units)
			}
		}
		for _, m := range report.Mismatches {
			t.Errorf("%s %s: %s %s %s: got %v, want %v", rec.ID, m.Phase, m.What, m.Power, m.Unit, m.Got, m.Want)
		}
	}
	t.Logf("replayed %d games, %d phases, %d dislodged units: %d games equal in everything", games, phases, retreats, good)
}

func TestReplayReportsMismatches(t *testing.T) {
	t.Parallel()
	start := NewGame(Standard()).Position()
	next := start
	next.Phase = "F1901M"
	next.Units = map[string][]string{}
	for name, units := range start.Units {
		next.Units[name] = units
	}
	next.Units["FRANCE"] = []string{"A MAR", "A BUR", "F BRE"}
	rec := Record{ID: "wrong", Phases: []PhaseRecord{
		{Position: start, Orders: map[string][]string{"FRANCE": {"A PAR - PIC", "nonsense"}}},
		{Position: next, Winner: "FRANCE"},
	}}
	report := NewAdjudicator(Standard()).Replay(rec)
	want := []MismatchKind{MismatchOrder, MismatchUnits, MismatchWinner}
	if len(report.Mismatches) != len(want) {
		t.Fatalf("got %v, want %v", report.Mismatches, want)
	}
	for i, m := range report.Mismatches {
		if m.What != want[i] || m.Phase != "S1901M" {
			t.Errorf("got %v, want %s in S1901M", m, want[i])
		}
	}
}
