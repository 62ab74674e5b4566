package chart

import (
	"math"
	"strconv"
)

// scale is an axis with its range, and where its values stand: from pixel 0 to length.
type scale struct {
	low, high, length float64
	ticks             []float64
}

// at is the pixel of a value.
func (s *scale) at(v float64) float64 { return (v - s.low) / (s.high - s.low) * s.length }

// newScale is the scale of an axis from low to high, rounded to ticks.
func newScale(low, high, length float64) scale {
	ticks := linearTicks(low, high, max(2, int(length/40)))
	return scale{ticks[0], ticks[len(ticks)-1], length, ticks}
}

// linearTicks are multiples of 1, 2 or 5 times a power of ten that enclose low and high.
func linearTicks(low, high float64, count int) []float64 {
	if low == high {
		high = low + max(1, math.Abs(low)/10)
	}
	step := roundStep((high - low) / float64(count))
	const slack = 1e-9 // a bound that is a tick but for its last bit
	first, last := math.Floor(low/step+slack), math.Ceil(high/step-slack)
	ticks := make([]float64, 0, int(last-first)+1)
	for i := first; i <= last; i++ {
		ticks = append(ticks, i*step)
	}
	return ticks
}

// roundStep is the least of 1, 2 and 5 times a power of ten that is no less than v.
func roundStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if v <= m*power*(1+1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// shortNumber is a number of an axis that ends at top: in about four digits, all of an axis in thousands, millions or
// milliards if its largest are.
func shortNumber(v, top float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if v != 0 && math.Abs(top) >= 10*unit.size {
			return digits(v/unit.size) + unit.name
		}
	}
	return digits(v)
}

func digits(v float64) string {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64) // what FormatFloat wrote
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

// NumberTicks are about count ticks at round numbers between from and to, for a Panel whose axis is no time.
func NumberTicks(from, to float64, count int, whole bool) []PanelTick {
	var ticks []PanelTick
	for _, t := range linearTicks(from, to, count) {
		if t >= from && t <= to && (!whole || t == math.Trunc(t)) {
			ticks = append(ticks, PanelTick{At: t, Text: shortNumber(t, to)})
		}
	}
	return ticks
}
