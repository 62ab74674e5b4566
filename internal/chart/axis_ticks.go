package chart

import (
	"math"
	"strconv"
)

// scale is an axis with its range, and where its values stand: from pixel 0 to length.
type scale struct {
	low, high float64
	log       bool
	length    float64
	ticks     []float64
	text      []string // of each tick
}

// at is the pixel of a value.
func (s *scale) at(v float64) float64 {
	low, high := s.low, s.high
	if s.log {
		low, high, v = math.Log10(low), math.Log10(high), math.Log10(v)
	}
	return (v - low) / (high - low) * s.length
}

// newScale is the scale of an axis whose values lie from low to high, with about count ticks.
func newScale(a Axis, low, high, length float64, count int) scale {
	fixed := a.Max > a.Min && (!a.Log || a.Min > 0)
	if fixed {
		low, high = a.Min, a.Max
	} else if a.FromZero && !a.Log {
		low, high = min(low, 0), max(high, 0)
	}
	s := scale{low: low, high: high, log: a.Log, length: length}
	if a.Log {
		s.ticks = logTicks(low, high, count)
	} else {
		s.ticks = linearTicks(low, high, count, a.Whole)
	}
	if !fixed {
		s.low, s.high = s.ticks[0], s.ticks[len(s.ticks)-1]
	} else {
		s.ticks = within(s.ticks, low, high)
	}
	s.text = tickTexts(s.ticks, a.Log)
	return s
}

func within(ticks []float64, low, high float64) []float64 {
	var out []float64
	slack := (high - low) * 1e-9
	for _, t := range ticks {
		if t >= low-slack && t <= high+slack {
			out = append(out, t)
		}
	}
	return out
}

// linearTicks are multiples of 1, 2 or 5 times a power of ten that enclose low and high.
func linearTicks(low, high float64, count int, whole bool) []float64 {
	if low == high {
		pad := math.Abs(low) / 10
		if pad == 0 || whole {
			pad = 1
		}
		high = low + pad
		if low != 0 {
			low -= pad
		}
	}
	step := roundStep((high - low) / float64(max(1, count)))
	if whole {
		step = max(1, step)
	}
	const slack = 1e-9 // a bound that is a tick but for its last bit
	first, last := math.Floor(low/step+slack), math.Ceil(high/step-slack)
	if last <= first {
		last = first + 1
	}
	ticks := make([]float64, 0, int(last-first)+1)
	for i := first; i <= last; i++ {
		ticks = append(ticks, multiple(i, step))
	}
	return ticks
}

// multiple is i times step without the error of a step that is no binary fraction.
func multiple(i, step float64) float64 {
	if step < 1 {
		return i / math.Round(1/step)
	}
	return i * step
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

// logTicks are powers of ten that enclose low and high; between them 2 and 5 where there are few.
func logTicks(low, high float64, count int) []float64 {
	const slack = 1e-9
	first, last := math.Floor(math.Log10(low)+slack), math.Ceil(math.Log10(high)-slack)
	if last <= first {
		last = first + 1
	}
	between := []float64{1}
	if int(last-first)*3 <= count {
		between = []float64{1, 2, 5}
	}
	every := max(1, math.Ceil((last-first)/float64(max(1, count))))
	var ticks []float64
	for e := first; e < last; e += every {
		for _, m := range between {
			ticks = append(ticks, m*math.Pow(10, e))
		}
	}
	ticks = append(ticks, math.Pow(10, last))
	for len(ticks) > 2 && ticks[1] <= low*(1+slack) {
		ticks = ticks[1:]
	}
	for len(ticks) > 2 && ticks[len(ticks)-2] >= high*(1-slack) {
		ticks = ticks[:len(ticks)-1]
	}
	return ticks
}

// tickTexts are the ticks' texts: all with as many decimals as tell them apart, large ones in thousands or millions.
func tickTexts(ticks []float64, log bool) []string {
	texts := make([]string, len(ticks))
	if log {
		for i, t := range ticks {
			texts[i] = shortNumber(t)
		}
		return texts
	}
	top, step := 0.0, math.Inf(1)
	for i, t := range ticks {
		top = max(top, math.Abs(t))
		if i > 0 {
			step = min(step, t-ticks[i-1])
		}
	}
	divisor, suffix := 1.0, ""
	for _, u := range []struct {
		divisor float64
		suffix  string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if top >= 10*u.divisor {
			divisor, suffix = u.divisor, u.suffix
			break
		}
	}
	decimals := 0
	if isNumber(step) {
		decimals = max(0, int(math.Ceil(-math.Log10(step/divisor)-1e-9)))
	}
	for i, t := range ticks {
		if t == 0 {
			t, texts[i] = 0, "0"
			continue
		}
		texts[i] = strconv.FormatFloat(t/divisor, 'f', decimals, 64) + suffix
	}
	return texts
}

// shortNumber is a number in about three digits, large ones in thousands, millions or milliards.
func shortNumber(v float64) string {
	switch abs := math.Abs(v); {
	case abs >= 1e12 || abs > 0 && abs < 1e-4:
		return strconv.FormatFloat(v, 'e', 0, 64)
	case abs >= 1e9:
		return significant(v/1e9) + "G"
	case abs >= 1e6:
		return significant(v/1e6) + "M"
	case abs >= 1e4:
		return significant(v/1e3) + "k"
	}
	return significant(v)
}

func significant(v float64) string {
	if math.Abs(v) >= 100 {
		return strconv.FormatFloat(math.Round(v), 'f', -1, 64)
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64) // what FormatFloat wrote
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}
