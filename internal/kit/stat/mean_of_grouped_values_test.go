package stat_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/millrace/millrace/internal/kit/stat"
)

// Games of one group are alike. The interval holds the planted mean in about 95 % of 2,000 draws all the same, which
// one that takes games as independent does not.
func TestIntervalOfGroupedValuesHoldsThePlantedMean(t *testing.T) {
	t.Parallel()
	const draws, planted = 2000, 0.3
	for _, tt := range []struct {
		name                string
		groups, games, more int // each group has games, and up to so many more
		between, within     float64
		won                 bool // rewards are 0 and 1
		offset              float64
	}{
		{name: "few groups", groups: 4, games: 4, between: 1, within: 1},
		{name: "groups of several sizes", groups: 16, games: 4, more: 4, between: 1, within: 1},
		{name: "many games, nearly equal in a group", groups: 8, games: 32, between: 1, within: 0.1},
		{name: "independent games", groups: 12, games: 8, between: 0, within: 1},
		{name: "wins and losses", groups: 24, games: 8, between: 0.2, won: true},
		{name: "rewards large beside their differences", groups: 8, games: 4, between: 1, within: 1, offset: 1e9},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, 2))
			held, naive := 0, 0
			for range draws {
				var sum stat.GroupedMean
				var all []float64
				for range tt.groups {
					mean := planted + tt.offset + tt.between*r.NormFloat64()
					if tt.won {
						mean = planted + tt.between*(2*r.Float64()-1)
					}
					values := make([]float64, tt.games+r.IntN(tt.more+1))
					for i := range values {
						values[i] = mean + tt.within*r.NormFloat64()
						if tt.won {
							values[i] = map[bool]float64{true: 1}[r.Float64() < mean]
						}
					}
					sum, all = stat.OneGroup(values).Add(sum), append(all, values...)
				}
				if !sum.Interval(0.95).Excludes(planted + tt.offset) {
					held++
				}
				if !stat.Mean(all, 0.95).Excludes(planted + tt.offset) {
					naive++
				}
				if mean, _ := stat.Moments(all); math.Abs(mean-sum.Mean) > 1e-12*math.Abs(mean)+1e-12 {
					t.Fatalf("mean %v, want %v", sum.Mean, mean)
				}
			}
			t.Logf("held in %.1f %% of draws, games as independent in %.1f %%", 100*float64(held)/draws,
				100*float64(naive)/draws)
			if held < 0.93*draws || held > 0.97*draws {
				t.Errorf("held in %d of %d", held, draws)
			}
		})
	}
}

func TestGroupedMeanOfLittle(t *testing.T) {
	t.Parallel()
	one := stat.OneGroup([]float64{1, 3})
	if i := one.Interval(0.95); i.Known() || i.Mean != 2 {
		t.Errorf("one group has an interval: %+v", i)
	}
	if d := one.Add(stat.OneGroup([]float64{7})).Deviation(); math.Abs(d-math.Sqrt2) > 1e-12 {
		t.Errorf("deviation within groups %v", d)
	}
	if none := stat.OneGroup(nil); none != (stat.GroupedMean{}) || none.Add(one) != one || one.Add(none) != one {
		t.Error("nothing added changes something")
	}
	if !math.IsNaN(stat.OneGroup([]float64{1}).Deviation()) {
		t.Error("one value has a deviation")
	}
}
