package changepoint

import (
	"math"

	"github.com/millrace/millrace/internal/kit/stat"
)

// Cycle is a series that repeats itself, such as 150 450 150 450: it has no level to shift.
type Cycle struct {
	Period int
	Low    float64 // median of the fastest place in the cycle
	High   float64 // median of the slowest
	Mean   float64 // of the medians of all places: one cycle's mean, without what came before it
}

const (
	longestPeriod = 8
	// wholeCycles must be seen before a repetition is called a cycle.
	wholeCycles = 3
)

// Oscillates reports whether x repeats itself with a period of 2 to 8 values, and how. A period is
// accepted when a level for each place in the cycle fits so much better than a single level that
// the penalty of the extra levels is paid, by the loss that Detect uses.
func Oscillates(x []float64, o Options) (Cycle, bool) {
	y := make([]float64, len(x))
	for i, v := range x {
		if !(v > 0) || math.IsInf(v, 1) {
			return Cycle{}, false
		}
		y[i] = math.Log(v)
	}
	found, best := 0, 0.0
	for p := 2; p <= longestPeriod && p*wholeCycles-1 <= len(y); p++ {
		if gain := cycleGain(y, p); gain > best {
			found, best = p, gain
		}
	}
	if found == 0 {
		return Cycle{}, false
	}
	found = shortest(y, found)
	c := cycleOf(x, found)
	return c, c.High/c.Low-1 >= minEffect(o)
}

// shortest is the shortest period that explains what a multiple of it does: every multiple of a period is one too, and
// may fit a little better by chance.
func shortest(y []float64, found int) int {
	sigma := cycleNoise(y, found)
	whole := cycleCost(y, found, sigma)
	for p := 2; p < found; p++ {
		if found%p == 0 && cycleCost(y, p, sigma)-whole <= float64(found-p)*(2+math.Log(float64(len(y)))) {
			return p
		}
	}
	return found
}

// cycleGain is how much better a cycle of p fits than one level, less the penalty. Its position need not be searched
// for, so the penalty grows more slowly than that of a cut.
func cycleGain(y []float64, p int) float64 {
	n := float64(len(y))
	s := series{y: y, sigma: cycleNoise(y, p)}
	return s.cost(0, len(y)) - 6 - float64(p-1)*math.Log(n) - cycleCost(y, p, s.sigma)
}

// cycleNoise is the noise of one value if the series repeats itself every p values.
func cycleNoise(y []float64, p int) float64 {
	return max(lagNoise(y, p)*(1+3*float64(p)/float64(len(y))), sigmaFloor)
}

// cycleCost is the cost of a level for each place in a cycle of p.
func cycleCost(y []float64, p int, sigma float64) float64 {
	sum := 0.0
	for place := range p {
		values := every(y, place, p)
		sum += series{y: values, sigma: sigma}.cost(0, len(values))
	}
	return sum
}

func cycleOf(x []float64, p int) Cycle {
	c := Cycle{Period: p, Low: math.Inf(1)}
	for place := range p {
		m := stat.Median(every(x, place, p))
		c.Low, c.High = min(c.Low, m), max(c.High, m)
		c.Mean += m / float64(p)
	}
	return c
}

// every is x[place], x[place+p], x[place+2p], ...
func every(x []float64, place, p int) []float64 {
	var out []float64
	for i := place; i < len(x); i += p {
		out = append(out, x[i])
	}
	return out
}
