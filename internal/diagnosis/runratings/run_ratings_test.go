package runratings

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/rollout"
)

func TestRatingsOfRun(t *testing.T) {
	t.Parallel()
	won := func(a, b string) rollout.Order { return rollout.Order(a + "@X > " + b + "@O") }
	for _, tt := range []struct {
		name    string
		orders  map[rollout.Order]int
		most    int
		players []string // best first
		anchor  string
		cycles  [][]string
	}{
		{"self-play tells nothing", nil, 10, nil, "", [][]string{}},
		{"versions against a bot", map[rollout.Order]int{won("v1", "random"): 60, "random@O > v1@X": 40,
			won("v2", "random"): 90, "random@O > v2@X": 10}, 10, []string{"v2", "v1", "random"}, "random", [][]string{}},
		{"versions alone", map[rollout.Order]int{won("v3", "v1"): 9, won("v1", "v3"): 1}, 10, []string{"v3", "v1"}, "v1",
			[][]string{}},
		{"neighbours are one", map[rollout.Order]int{won("v1", "dumb"): 5, won("dumb", "v2"): 9, won("v3", "dumb"): 9,
			won("v4", "dumb"): 9, won("dumb", "v4"): 1}, 3, []string{"v3-4", "dumb", "v1-2"}, "dumb", [][]string{}},
		{"one that is left over keeps its name", map[rollout.Order]int{won("dumb", "v1"): 5, won("v3", "dumb"): 5,
			won("dumb", "v2"): 5}, 3, []string{"v3", "dumb", "v1-2"}, "dumb", [][]string{}},
		{"a cycle", map[rollout.Order]int{won("v1", "v2"): 80, won("v2", "v1"): 20, won("v2", "v3"): 80, won("v3", "v2"): 20,
			won("v3", "v1"): 80, won("v1", "v3"): 20, won("v1", "random"): 90, "random@O > v1@X": 10}, 10, nil, "random",
			[][]string{{"v1", "v2", "v3"}}},
		{"noise is no cycle", map[rollout.Order]int{won("v1", "v2"): 6, won("v2", "v1"): 4, won("v2", "v3"): 6,
			won("v3", "v2"): 4, won("v3", "v1"): 6, won("v1", "v3"): 4}, 10, nil, "v1", [][]string{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, err := Of("demo", tt.orders, tt.most)
			if err != nil {
				t.Fatal(err)
			}
			var players []string
			for _, p := range r.Players {
				players = append(players, p.Name)
			}
			if tt.players != nil && !slices.Equal(players, tt.players) || r.Anchor != tt.anchor ||
				!reflect.DeepEqual(r.Cycles, tt.cycles) {
				t.Errorf("players %v, anchor %q, cycles %v", players, r.Anchor, r.Cycles)
			}
		})
	}
}

// TestMeetings: two players are compared once a game, over all their seats in it, and a tie is half.
func TestMeetings(t *testing.T) {
	t.Parallel()
	r, err := Of("demo", map[rollout.Order]int{"v1@FRANCE > dumb@ITALY = dumb@TURKEY": 3,
		"dumb@ITALY > v1@FRANCE = dumb@TURKEY": 1}, 10)
	if err != nil {
		t.Fatal(err)
	}
	want := []Meeting{{"v1", "dumb", 4, (3 + 0.25) / 4}}
	if !slices.Equal(r.Meetings, want) || len(r.Places) == 0 {
		t.Errorf("meetings %v, want %v; places %v", r.Meetings, want, r.Places)
	}
}

// TestEqualsHaveNoCycles: among equal players a cycle is named in at most one of twenty leagues.
func TestEqualsHaveNoCycles(t *testing.T) {
	t.Parallel()
	const leagues = 400
	named := 0
	for seed := range uint64(leagues) {
		rng, orders := rand.New(rand.NewPCG(seed, 3)), map[rollout.Order]int{}
		for a := range 8 {
			for b := range a {
				for range 30 {
					x, y := a, b
					if rng.IntN(2) == 0 {
						x, y = b, a
					}
					orders[rollout.Order(fmt.Sprintf("v%d@X > v%d@O", x, y))]++
				}
			}
		}
		r, err := Of("demo", orders, 10)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Cycles) > 0 {
			named++
		}
	}
	if share := float64(named) / leagues; share > falseAlarm || math.IsNaN(share) {
		t.Errorf("cycles among equals in %.3f of the leagues, want at most %.2f", share, falseAlarm)
	}
}
