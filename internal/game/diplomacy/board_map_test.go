package diplomacy

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestStandardMap(t *testing.T) {
	t.Parallel()
	if _, err := checkMap(standardMap); err != nil {
		t.Fatalf("the game cannot be played on it: %v", err)
	}
	m := Standard()
	count := map[Terrain]int{}
	armyEdges, fleetEdges, fleetNodes := 0, 0, 0
	for i := range m.PlaceCount() {
		armyEdges += len(m.Neighbors(Army, Place(i)))
		fleetEdges += len(m.Neighbors(Fleet, Place(i)))
		if len(m.Neighbors(Fleet, Place(i))) > 0 {
			fleetNodes++
		}
	}
	for i := range m.ProvinceCount() {
		count[m.Terrain(Province(i))]++
	}
	centers := m.Centers()
	for _, tt := range []struct {
		what      string
		got, want int
	}{
		{"inland", count[Inland], 14}, {"coastal", count[Coastal], 42}, {"sea", count[Sea], 19},
		{"centres", centers.Len(), 34}, {"to win", m.VictoryCenters(), 18}, {"units", len(m.StartUnits()), 22},
		{"army edges", armyEdges / 2, 111}, {"fleet edges", fleetEdges / 2, 141}, {"fleet nodes", fleetNodes, 64},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.what, tt.got, tt.want)
		}
	}
}

// island is a board of two powers that the test wrote: two shores, an inland province and the sea between them.
const island = `{
	"name": "island", "begin": "S0001M", "victory_centers": 3,
	"powers": {
		"WEST": {"home_centers": ["WEA"], "start_units": ["A WEA", "F SEA"]},
		"EAST": {"home_centers": ["EAA"], "start_units": ["F EAA/NC"]}
	},
	"provinces": [
		{"id": "WEA", "name": "West Haven", "type": "coastal", "supply_center": true, "home_of": "WEST"},
		{"id": "EAA", "name": "East Haven", "type": "coastal", "coasts": ["NC", "SC"], "supply_center": true, "home_of": "EAST"},
		{"id": "MID", "name": "Middle", "type": "inland", "supply_center": true},
		{"id": "SEA", "name": "Strait", "type": "sea"}
	],
	"army_adjacency": {"EAA": ["MID"], "MID": ["EAA"]},
	"fleet_adjacency": {"SEA": ["WEA", "EAA/NC"], "WEA": ["SEA"], "EAA/NC": ["SEA"]},
	"alphabetical_by_name": ["EAA", "MID", "SEA", "WEA"]
}`

func TestOtherMapPlays(t *testing.T) {
	t.Parallel()
	m, err := LoadMap([]byte(island))
	if err != nil {
		t.Fatal(err)
	}
	a, s := NewAdjudicator(m), NewGame(m)
	west, _ := m.PowerByName("WEST")
	orders := make([][]Order, 2)
	for _, text := range []string{"A West Haven - East Haven VIA", "F Strait C A WEA - EAA"} {
		o, err := s.ParseOrder(west, text)
		if err != nil {
			t.Fatal(err)
		}
		orders[west] = append(orders[west], o)
	}
	out := a.Process(s, orders)
	if got := out.Next.Phase().String(); got != "F1M" {
		t.Errorf("next phase %s, want F1M", got)
	}
	if got := texts(&out.Next, [][]Order{{out.Units[0].Order, out.Units[1].Order, out.Units[2].Order}}); got[0] != "A "+
		"WEA - EAA VIA" {
		t.Errorf("orders %v", got)
	}
	if out.Units[0].Result != Bounce || len(out.Destroyed) != 0 {
		t.Errorf("one army against one fleet: %v, want a bounce", out.Units[0].Result.Words())
	}
}

func TestChecksOfMaps(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, old, new, want string }{
		{"no JSON", "{", "[", "read map"},
		{"no powers", `"WEST": {"home_centers": ["WEA"], "start_units": ["A WEA", "F SEA"]},
		"EAST": {"home_centers": ["EAA"], "start_units": ["F EAA/NC"]}`, "", "0 powers"},
		{"a power twice", `"EAST": {"home`, `"WEST": {"home`, "listed twice"},
		{"a winter start", "S0001M", "W0001A", "want a movement phase"},
		{"an odd phase", "S0001M", "X1M", "no such season"},
		{"no victory", `"victory_centers": 3`, `"victory_centers": 0`, "want at least 1"},
		{"an unknown terrain", `"type": "inland"`, `"type": "swamp"`, "unknown type"},
		{"a province twice", `"id": "MID"`, `"id": "SEA"`, "listed twice"},
		{"an id that is a word", `"id": "MID"`, `"id": "HOLD"`, "want an id"},
		{"a coast of no name", `["NC", "SC"]`, `["NC", "XX"]`, "want NC, SC, EC or WC"},
		{"coasts inland", `"type": "inland"`, `"type": "inland", "coasts": ["NC"]`, "is not coastal"},
		{"an edge to nowhere", `"EAA": ["MID"], "MID": ["EAA"]`, `"EAA": ["XXX"], "XXX": ["EAA"]`, "no such place"},
		{"an edge one way", `"MID": ["EAA"]`, `"MID": []`, "only in one direction"},
		{"an army at sea", `"EAA": ["MID"], "MID": ["EAA"]`, `"EAA": ["SEA"], "SEA": ["EAA"]`, "cannot stand there"},
		{"a fleet on no coast", `"EAA/NC"], "WEA": ["SEA"], "EAA/NC"`, `"EAA"], "WEA": ["SEA"], "EAA"`, "cannot stand there"},
		{"an edge twice", `"MID": ["EAA"]}`, `"MID": ["EAA", "EAA"]}`, "listed twice"},
		{"a home that is no centre", `"home_centers": ["WEA"]`, `"home_centers": ["SEA"]`, "is not a supply centre"},
		{"a home of two", `"home_centers": ["EAA"]`, `"home_centers": ["WEA"]`, "belongs to two powers"},
		{"a home that its power does not list", `"type": "sea"`, `"type": "sea", "home_of": "EAST"`, "does not list it"},
		{"a unit that cannot be", `"A WEA", "F SEA"`, `"A WEA", "A SEA"`, "can stand"},
		{"two units in a province", `"A WEA", "F SEA"`, `"A WEA", "F WEA"`, "already taken"},
		{"a name left out", `["EAA", "MID", "SEA", "WEA"]`, `["EAA", "MID", "SEA"]`, "3 provinces of 4"},
		{"a name twice", `["EAA", "MID", "SEA", "WEA"]`, `["EAA", "MID", "SEA", "SEA"]`, "listed twice"},
		{"an alias of nothing", `"army_adjacency"`, `"aliases": {"X": "Y"}, "army_adjacency"`, "no such place"},
	} {
		broken := strings.Replace(island, tt.old, tt.new, 1)
		if broken == island {
			t.Fatalf("%s: the case changes nothing", tt.name)
		}
		if _, err := checkMap([]byte(broken)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want an error with %q", tt.name, err, tt.want)
		}
	}
}

func TestNewStateRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, position, want string }{
		{"no phase", `{}`, "phase"},
		{"a power", `{"name": "S1901M", "units": {"SPAIN": []}}`, "not on this map"},
		{"a unit", `{"name": "S1901M", "units": {"FRANCE": ["A MAO"]}}`, "can stand"},
		{"a fleet without its coast", `{"name": "S1901M", "units": {"FRANCE": ["F SPA"]}}`, "can stand"},
		{"two units in a province", `{"name": "S1901M", "units": {"FRANCE": ["A BRE", "F BRE"]}}`, "already taken"},
		{"a centre", `{"name": "S1901M", "centers": {"FRANCE": ["BUR"]}}`, "not a supply centre"},
		{"a centre twice", `{"name": "S1901M", "centers": {"FRANCE": ["PAR", "PAR"]}}`, "already owned"},
		{"a centre's owner", `{"name": "S1901M", "centers": {"SPAIN": ["PAR"]}}`, "not on this map"},
		{"dislodged too early", `{"name": "S1901M", "dislodged": {"FRANCE": {"A PAR": ["BUR"]}}}`, "outside a retreat phase"},
		{"a retreat too far", `{"name": "S1901R", "dislodged": {"FRANCE": {"A PAR": ["MUN"]}}}`, "not next to it"},
		{"dislodged nowhere", `{"name": "S1901R", "dislodged": {"FRANCE": {"A XXX": []}}}`, "can stand"},
	} {
		var p Position
		if err := json.Unmarshal([]byte(tt.position), &p); err != nil {
			t.Fatal(err)
		}
		if _, err := NewState(Standard(), p); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want an error with %q", tt.name, err, tt.want)
		}
	}
}
