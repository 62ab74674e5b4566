package diplomacy

import (
	"cmp"
	"slices"
	"testing"
)

// played is a movement phase of a recorded game, ready to be adjudicated.
type played struct {
	state  *State
	orders [][]Order
}

// movementPhases are the movement phases of the recorded games with orders that pass keep.
func movementPhases(tb testing.TB, keep func(Phase) bool) []played {
	var all []played
	for _, rec := range readGames(tb) {
		for _, p := range rec.Phases {
			phase, err := ParsePhase(p.Phase)
			if err != nil || phase.Type != Movement || len(p.Orders) == 0 || !keep(phase) {
				continue
			}
			s := mustState(tb, p.Position)
			all = append(all, played{s, ordersFrom(tb, s, p.Orders)})
		}
	}
	return all
}

// median is the phase with the median number of units.
func median(all []played) []played {
	slices.SortStableFunc(all, func(x, y played) int {
		return cmp.Compare(x.state.occupied.Len(), y.state.occupied.Len())
	})
	return all[len(all)/2 : len(all)/2+1]
}

// benchPhases are phases of recorded games: the start, the middle ones of the springs of 1903 and 1908, and all from
// 1903 on, of which a benchmark takes the mean.
func benchPhases(b *testing.B) []struct {
	name   string
	phases []played
} {
	spring := func(year int32) []played {
		return median(movementPhases(b, func(p Phase) bool { return p.Season == Spring && p.Year == year }))
	}
	return []struct {
		name   string
		phases []played
	}{
		{"start", spring(1901)},
		{"1903", spring(1903)},
		{"1908", spring(1908)},
		{"mean", movementPhases(b, func(p Phase) bool { return p.Year >= 1903 })},
	}
}

func BenchmarkAdjudicate(b *testing.B) {
	a := NewAdjudicator(Standard())
	for _, bench := range benchPhases(b) {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				p := &bench.phases[i%len(bench.phases)]
				a.Process(p.state, p.orders)
			}
		})
	}
}

func BenchmarkLegalOrders(b *testing.B) {
	g := NewGenerator(Standard())
	for _, bench := range benchPhases(b) {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				g.Options(bench.phases[i%len(bench.phases)].state)
			}
		})
	}
}

// TestSteadyStateAllocatesNothing is not parallel: it counts allocations.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	phases := movementPhases(t, func(p Phase) bool { return p.Year <= 1908 })[:200]
	a, g := NewAdjudicator(Standard()), NewGenerator(Standard())
	for _, tt := range []struct {
		what string
		do   func(*played)
	}{
		{"adjudication", func(p *played) { a.Process(p.state, p.orders) }},
		{"legal orders", func(p *played) { g.Options(p.state) }},
	} {
		// The first run, which AllocsPerRun does not count, grows the buffers to what the phases need.
		if n := testing.AllocsPerRun(3, func() {
			for i := range phases {
				tt.do(&phases[i])
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations in %d phases, want none", tt.what, n, len(phases))
		}
	}
}
