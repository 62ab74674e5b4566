package changepoint_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis/changepoint"
)

var (
	powerRuns  = flag.Int("power-runs", 40, "series per cell of the table of recall and false alarms")
	powerSeed  = flag.Uint64("power-seed", 1, "what the table's series are drawn from")
	powerTable = flag.Bool("power-table", false, "print the table")
)

// shape is a kind of series, and what must be found of it.
type shape struct {
	name   string
	draw   func(rng *rand.Rand) (x []float64, changes []int) // without noise, and the changes in it
	long   bool                                              // only for the table
	ar     float64                                           // correlation of the noise
	wide   float64                                           // the noise is so many times as wide; 0 is 1
	drift  bool                                              // a drift is what must be found
	period bool                                              // a cycle of two is
	// At a noise of 5 % and of 10 %: changes found within a step, or drifts, or cycles, at least; series with a false
	// alarm, at most.
	found, alarms [2]float64
}

var noises = [4]float64{0.02, 0.05, 0.10, 0.20}

func shift(n, at int, ratio float64) []float64 {
	x := slices.Repeat([]float64{150}, n)
	for i := at; i < n; i++ {
		x[i] *= ratio
	}
	return x
}

func shapes() []shape {
	shifted := func(n, at int, ratio float64) func(*rand.Rand) ([]float64, []int) {
		return func(*rand.Rand) ([]float64, []int) { return shift(n, at, ratio), []int{at} }
	}
	drawn := func(after int) func(*rand.Rand) ([]float64, []int) {
		return func(rng *rand.Rand) ([]float64, []int) {
			at := 4 + rng.IntN(17)
			return shift(at+after, at, 2), []int{at}
		}
	}
	burst := func(length int) func(*rand.Rand) ([]float64, []int) {
		return func(*rand.Rand) ([]float64, []int) {
			x := shift(40, 15, 2)
			copy(x[15+length:], shift(40-15-length, 0, 1))
			return x, []int{15, 15 + length}
		}
	}
	none := func(n int) func(*rand.Rand) ([]float64, []int) {
		return func(*rand.Rand) ([]float64, []int) { return shift(n, n, 1), nil }
	}
	var all []shape
	add := func(name string, draw func(*rand.Rand) ([]float64, []int), found, alarms [2]float64) *shape {
		all = append(all, shape{name: name, draw: draw, found: found, alarms: alarms})
		return &all[len(all)-1]
	}
	few := [2]float64{0.06, 0.06}
	any := [2]float64{1, 1}
	add("2x at n=4..20, 4 steps after", drawn(4), [2]float64{0.97, 0.92}, few)
	add("2x at n=4..20, 20 steps after", drawn(20), [2]float64{0.97, 0.95}, few)
	add("2x at 3, n=5", shifted(5, 3, 2), [2]float64{0.9, 0.5}, few)
	add("2x at 3, n=8", shifted(8, 3, 2), [2]float64{0.95, 0.8}, few)
	add("2x at 3, n=30", shifted(30, 3, 2), [2]float64{0.97, 0.92}, few)
	add("1.3x at 15, n=30", shifted(30, 15, 1.3), [2]float64{0.95, 0.6}, [2]float64{0.06, 0.2})
	add("1.15x at 30, n=60", shifted(60, 30, 1.15), [2]float64{0.85, 0.25}, any)
	add("jump and return, 5 steps", burst(5), [2]float64{0.97, 0.95}, few)
	add("jump and return, 10 steps", burst(10), [2]float64{0.97, 0.95}, few)
	add("jump and return, 3 steps", burst(3), [2]float64{}, few)
	add("two jumps of 1.5x, n=40", func(*rand.Rand) ([]float64, []int) {
		x := shift(40, 12, 1.5)
		for i := 26; i < 40; i++ {
			x[i] *= 1.5
		}
		return x, []int{12, 26}
	}, [2]float64{0.95, 0.85}, [2]float64{0.06, 0.15})
	add("constant, n=50", none(50), [2]float64{}, few)
	add("one outlier, n=50", func(rng *rand.Rand) ([]float64, []int) {
		x := shift(50, 50, 1)
		x[5+rng.IntN(40)] *= 3
		return x, nil
	}, [2]float64{}, few)
	for _, total := range []float64{1.3, 2} {
		for _, n := range []int{30, 60, 120} {
			found, alarms := [2]float64{0.9, 0.9}, [2]float64{0.15, 0.15}
			if total < 2 && n < 120 {
				found, alarms = [2]float64{0.6, 0}, [2]float64{0.3, 1}
			} else if total < 2 {
				found, alarms = [2]float64{0.9, 0.65}, [2]float64{0.1, 0.35}
			}
			one := add(fmt.Sprintf("drift to %gx, n=%d", total, n), func(*rand.Rand) ([]float64, []int) {
				x := shift(n, n, 1)
				for i := range x {
					x[i] *= 1 + (total-1)*float64(i)/float64(n-1)
				}
				return x, nil
			}, found, alarms)
			one.drift = true
		}
	}
	for _, n := range []int{20, 40, 60, 100, 200, 500} {
		one := add(fmt.Sprintf("AR(1) noise of 0.5, n=%d", n), none(n), [2]float64{}, [2]float64{0.05, 0.1})
		one.ar, one.long = 0.5, n > 60
	}
	for _, n := range []int{100, 300} {
		one := add(fmt.Sprintf("AR(1) of 0.5, innovations as wide, n=%d", n), none(n), [2]float64{}, [2]float64{0.05, 0.05})
		one.ar, one.wide, one.long = 0.5, 1/math.Sqrt(0.75), true
	}
	add("AR(1) noise of 0.5, 2x at 10, n=30", shifted(30, 10, 2), [2]float64{0.95, 0.9}, [2]float64{0.06, 0.15}).ar = 0.5
	add("AR(1) noise of 0.7, n=60", none(60), [2]float64{}, [2]float64{0.06, 0.15}).ar = 0.7
	for _, n := range []int{12, 30} {
		add(fmt.Sprintf("150 and 450 in turn, n=%d", n), func(*rand.Rand) ([]float64, []int) {
			x := shift(n, n, 1)
			for i := 1; i < n; i += 2 {
				x[i] = 450
			}
			return x, nil
		}, [2]float64{0.95, 0.95}, few).period = true
	}
	return all
}

// TestPowerTable is what the method finds and what it raises in vain, on series that are drawn afresh with every seed:
//
//	go test ./internal/diagnosis/changepoint -run TestPowerTable -v -power-table -power-runs 200 -power-seed 7
func TestPowerTable(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	table.WriteString("| shape | 0.02 | 0.05 | 0.10 | 0.20 |\n|---|---|---|---|---|\n")
	for _, one := range shapes() {
		if one.long && !*powerTable {
			continue
		}
		fmt.Fprintf(&table, "| %s |", one.name)
		for i, cv := range noises {
			asserted := i == 1 || i == 2
			if !asserted && !*powerTable {
				continue
			}
			r := one.measure(cv)
			fmt.Fprintf(&table, " %s |", r.text(one))
			if asserted && (r.found(one) < one.found[i-1] || r.alarms > one.alarms[i-1]) {
				t.Errorf("%s, noise %.2f: %s; want %.2f found at least and %.2f false alarms at most", one.name, cv, r.text(one),
					one.found[i-1], one.alarms[i-1])
			}
		}
		table.WriteString("\n")
	}
	if *powerTable {
		t.Log("\n" + table.String())
	}
}

// shares are of series, or of the changes in them.
type shares struct{ near, exact, alarms, drifts, periods float64 }

func (r shares) found(s shape) float64 {
	switch {
	case s.drift:
		return r.drifts
	case s.period:
		return r.periods
	}
	return r.near
}

func (r shares) text(s shape) string {
	text := fmt.Sprintf("FA %.2f", r.alarms)
	switch {
	case s.drift || s.period:
		return fmt.Sprintf("%.2f, %s", r.found(s), text)
	case r.near > 0:
		return fmt.Sprintf("%.2f/%.2f, %s", r.near, r.exact, text)
	}
	return text
}

// measure is over many series how many of the changes were found within a step and exactly, and the share of series
// with a change or a drift where there is none.
func (s shape) measure(cv float64) (out shares) {
	rng := rand.New(rand.NewPCG(*powerSeed, uint64(1000*cv)))
	runs := float64(*powerRuns)
	for range *powerRuns {
		x, changes := s.draw(rng)
		sigma := math.Sqrt(math.Log(1+cv*cv)) * max(1, s.wide)
		e := rng.NormFloat64()
		for i := range x {
			if i > 0 {
				e = s.ar*e + math.Sqrt(1-s.ar*s.ar)*rng.NormFloat64()
			}
			x[i] *= math.Exp(sigma * e)
		}
		r, _ := changepoint.Detect(x, changepoint.Options{})
		found := at(r)
		for _, c := range changes {
			if slices.ContainsFunc(found, func(f int) bool { return f >= c-1 && f <= c+1 }) {
				out.near += 1 / runs / float64(len(changes))
			}
			if slices.Contains(found, c) {
				out.exact += 1 / runs / float64(len(changes))
			}
		}
		wrong := slices.ContainsFunc(found, func(f int) bool {
			return !slices.ContainsFunc(changes, func(c int) bool { return f >= c-1 && f <= c+1 })
		})
		if len(r.Drifts) > 0 {
			out.drifts += 1 / runs
		}
		if wrong || len(r.Drifts) > 0 && !s.drift {
			out.alarms += 1 / runs
		}
		if c, ok := changepoint.Oscillates(x, changepoint.Options{}); ok && c.Period == 2 {
			out.periods += 1 / runs
		}
	}
	return out
}
