package plan

import (
	"math"
	"strconv"
)

// markFrontier marks the settings that no other one of the same batch beats: with a price, in step time and $ per step;
// without, in step time, engines and staleness.
func (p *Plan) markFrontier() {
	for i := range p.Cells {
		c := &p.Cells[i]
		c.Frontier = c.Eligible()
		for k := range p.Cells {
			if other := &p.Cells[k]; c.Frontier && other.Eligible() && other.Batch() == c.Batch() {
				c.Frontier = !p.beats(other, c)
			}
		}
	}
}

// beats reports whether a is better than b in one respect and worse in none. Figures count as they are printed.
func (p *Plan) beats(a, b *Cell) bool {
	better, worse := false, false
	for _, pair := range p.respects(a, b) {
		x, y := printed(pair[0]), printed(pair[1])
		better, worse = better || x < y, worse || x > y
	}
	return better && !worse
}

func (p *Plan) respects(a, b *Cell) [][2]float64 {
	if p.Price > 0 {
		return [][2]float64{{a.Step.Mean, b.Step.Mean}, {a.StepCost, b.StepCost}}
	}
	return [][2]float64{{a.Step.Mean, b.Step.Mean}, {float64(a.Engines), float64(b.Engines)},
		{a.StalenessMean, b.StalenessMean}}
}

// printed is a figure to three digits: what differs less is the same to a reader, and mostly chance.
func printed(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return v
	}
	out, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', 2, 64), 64)
	if err != nil {
		return v
	}
	return out
}
