package bot

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/game/diplomacy"
)

// playGame plays a game among bots, one name per power, and returns its last position.
func playGame(tb testing.TB, names []Name, years int, seed uint64,
	check func(*diplomacy.State, diplomacy.Options, []diplomacy.Order)) *diplomacy.State {
	tb.Helper()
	m := diplomacy.Standard()
	rng := rand.New(rand.NewPCG(seed, 0))
	bots := map[Name]Bot{}
	for _, name := range names {
		b, err := New(name, m)
		if err != nil {
			tb.Fatal(err)
		}
		bots[name] = b
	}
	generator, adjudicator := diplomacy.NewGenerator(m), diplomacy.NewAdjudicator(m)
	s := diplomacy.NewGame(m)
	last := s.Phase().Year + int32(years)
	for !s.Done() && s.Phase().Year < last {
		orders := make([][]diplomacy.Order, len(names))
		for p, o := range generator.Options(s) {
			if s.MustAct(o.Power) {
				orders[p] = bots[names[p]].Orders(s, o, rng)
				if check != nil {
					check(s, o, orders[p])
				}
			}
		}
		s = adjudicator.Process(s, orders).Next.Clone()
	}
	return s
}

func all(name Name) []Name { return slices.Repeat([]Name{name}, 7) }

// Bots only give legal orders, at most one per site and no more than are due.
func TestLegal(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(10) {
				playGame(t, all(name), 12, seed, func(s *diplomacy.State, o diplomacy.Options, orders []diplomacy.Order) {
					if len(orders) > o.Count {
						t.Errorf("%s: %d orders of %d", s.Phase(), len(orders), o.Count)
					}
					var given diplomacy.ProvinceSet
					for _, order := range orders {
						if err := s.Check(o.Power, order); err != nil {
							t.Errorf("%s %s: %v", s.Phase(), s.Map().PowerName(o.Power), err)
						}
						if at := s.Map().Province(order.Place); order.Verb != diplomacy.Waive && given.Has(at) {
							t.Errorf("%s: two orders at %s", s.Phase(), s.Map().ProvinceID(at))
						} else if order.Verb != diplomacy.Waive {
							given.Add(at)
						}
					}
				})
			}
		})
	}
}

func TestDeterministic(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		a, b := playGame(t, all(name), 5, 42, nil), playGame(t, all(name), 5, 42, nil)
		if *a != *b {
			t.Errorf("%s: the same seed gives two games", name)
		}
	}
}

// DumbBot is worth its name only beside people: among random and chaos bots it wins centres in most games.
func TestDumbBotBeatsTheOthers(t *testing.T) {
	t.Parallel()
	const games = 14
	for _, other := range []Name{Random, Chaos, Hold} {
		won := 0
		for seed := range uint64(games) {
			names := all(other)
			dumb := int(seed) % len(names)
			names[dumb] = Dumb
			s := playGame(t, names, 10, seed, nil)
			if s.CenterCount(diplomacy.Power(dumb)) >= 8 {
				won++
			}
		}
		t.Logf("against %s: %d of %d games with 8 centres or more after ten years", other, won, games)
		if won < games*3/4 {
			t.Errorf("against %s: DumbBot has 8 centres in %d of %d games", other, won, games)
		}
	}
}

// Without foreign units near, DumbBot takes what is free: the neutral centre next to its army.
func TestDumbBotTakesWhatIsFree(t *testing.T) {
	t.Parallel()
	m := diplomacy.Standard()
	s, err := diplomacy.NewState(m, diplomacy.Position{
		Phase: "F1901M", Units: map[string][]string{"FRANCE": {"A GAS"}},
		Centers: map[string][]string{"FRANCE": {"PAR", "MAR", "BRE"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	france, _ := m.PowerByName("FRANCE")
	b, _ := New(Dumb, m)
	counts := map[string]int{}
	for seed := range uint64(100) {
		for _, o := range b.Orders(s, diplomacy.NewGenerator(m).Options(s)[france], rand.New(rand.NewPCG(seed, 1))) {
			counts[m.OrderString(o)]++
		}
	}
	if counts["A GAS - SPA"] < 60 {
		t.Errorf("orders %v, want A GAS - SPA mostly", counts)
	}
}

func TestDraw(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	for _, tt := range []struct {
		values []int
		lo, hi int // how often of a thousand the best is taken
	}{
		{[]int{100}, 1000, 1000},
		{[]int{100, 80}, 1000, 1000}, // a gap of a fifth rules the next best out
		{[]int{100, 100}, 420, 580},
		{[]int{90, 100}, 680, 820}, // a tenth: half the cases, and half of those
		{[]int{0, 0}, 420, 580},
		{[]int{-5, -9}, 420, 580},
	} {
		best := 0
		for range 1000 {
			options := make([]choice, len(tt.values))
			for i, v := range tt.values {
				options[i] = choice{v, diplomacy.Place(i)}
			}
			if i := draw(options, rng).place; tt.values[i] == slices.Max(tt.values) &&
				(len(tt.values) == 1 || int(i) == slices.Index(tt.values, slices.Max(tt.values))) {
				best++
			}
		}
		if best < tt.lo || best > tt.hi {
			t.Errorf("values %v: the best %d times of 1000, want %d to %d", tt.values, best, tt.lo, tt.hi)
		}
	}
}

func TestUnknownName(t *testing.T) {
	t.Parallel()
	if _, err := New("smart", diplomacy.Standard()); err == nil ||
		!strings.Contains(err.Error(), "hold, random, chaos, dumb") {
		t.Errorf("got %v, want an error that lists the bots", err)
	}
}

// BenchmarkGames plays whole games among equal bots, to a solo or the end of 1920.
func BenchmarkGames(b *testing.B) {
	for _, name := range Names() {
		for _, years := range []int{3, 20} {
			b.Run(fmt.Sprintf("%s/%dyears", name, years), func(b *testing.B) {
				seed := uint64(0)
				for b.Loop() {
					playGame(b, all(name), years, seed, nil)
					seed++
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "games/s")
			})
		}
	}
}
