package changepoint

import (
	"math"
	"slices"

	"github.com/millrace/millrace/internal/kit/stat"
)

// Drift is a stretch of the series that grows or shrinks by about the same ratio with every value.
type Drift struct {
	From, To int     // the values in [From, To)
	PerValue float64 // relative change from one value to the next
	Start    float64 // the trend at From
}

// leastDrift is the shortest stretch that may be a drift: fewer values are a change that takes its time.
const leastDrift = 10

// driftMargin is by how much a drift must fit better than levels: a single level shift that noise blurs resembles one.
const driftMargin = 2.0

// line is a straight line through the logarithms: a at from, b more with each value.
type line struct {
	from, to int
	a, b     float64
}

func (l line) at(i int) float64 { return l.a + l.b*float64(i-l.from) }

// stretch is a piece of the series between two cuts: a level, or a line.
type stretch struct {
	from, to int
	line     *line
}

// drifts joins levels that a straight line fits as well, so that a drift is not cut into levels that mean little. It
// finds the cheapest way to tile the series with the levels between cuts and lines over any of them in a row.
func (s series) drifts(cuts []int) []stretch {
	bounds := withEnds(cuts, len(s.y))
	type choice struct {
		cost float64
		from int
		line *line
	}
	best := make([]choice, len(bounds))
	for j := 1; j < len(bounds); j++ {
		best[j].cost = math.Inf(1)
		for i := range j {
			joint := best[i].cost
			if i > 0 {
				joint += s.penalty()
			}
			if i == j-1 {
				level := joint + s.cost(bounds[i], bounds[j])
				if level < best[j].cost-tie {
					best[j] = choice{level, i, nil}
				}
			}
			if bounds[j]-bounds[i] < leastDrift {
				continue
			}
			l := s.fit(bounds[i], bounds[j])
			drift := joint + s.lineCost(l) + s.penalty() + driftMargin
			if drift < best[j].cost-tie && s.matters(l) {
				best[j] = choice{drift, i, &l}
			}
		}
	}
	var out []stretch
	for j := len(bounds) - 1; j > 0; j = best[j].from {
		out = append(out, stretch{bounds[best[j].from], bounds[j], best[j].line})
	}
	slices.Reverse(out)
	return out
}

// matters reports whether the values change over the line by enough to be called a change, and the line explains more
// than a level with correlated noise does.
func (s series) matters(l line) bool {
	if math.Exp(math.Abs(l.b)*float64(l.to-l.from-1))-1 < max(s.minEffect, 0) {
		return false
	}
	part := series{y: s.y[l.from:l.to], sigma: s.sigma}
	usual := make([]float64, len(part.y))
	for i := range usual {
		usual[i] = l.at(l.from + i)
	}
	part = part.tamedTo(usual)
	gain := part.fitLevels(nil).loss - part.fitNoise(func(i int) float64 { return usual[i] }).loss
	return gain >= s.penalty()+driftMargin
}

// fit is a line that a few outliers do not bend: the median slope over half the stretch, made finer by weighing the
// values as the bounded loss does.
func (s series) fit(from, to int) line {
	y := s.y[from:to]
	half := len(y) / 2
	slopes := make([]float64, 0, len(y)-half)
	for i := half; i < len(y); i++ {
		slopes = append(slopes, (y[i]-y[i-half])/float64(half))
	}
	l := line{from: from, to: to, b: stat.Median(slopes)}
	rest := make([]float64, len(y))
	for i, v := range y {
		rest[i] = v - l.b*float64(i)
	}
	l.a = stat.Median(rest)
	for range 3 {
		l = s.refit(l)
	}
	return l
}

// refit is the least-squares line through the values that are no outliers of l.
func (s series) refit(l line) line {
	var n, st, sy, stt, sty float64
	for i := l.from; i < l.to; i++ {
		if math.Abs(s.y[i]-l.at(i)) > clip*s.sigma {
			continue
		}
		t := float64(i - l.from)
		n, st, sy, stt, sty = n+1, st+t, sy+s.y[i], stt+t*t, sty+t*s.y[i]
	}
	if det := n*stt - st*st; n >= 3 && det > 0 {
		l.b = (n*sty - st*sy) / det
		l.a = (sy - l.b*st) / n
	}
	return l
}

func (s series) lineCost(l line) float64 {
	sum := 0.0
	for i := l.from; i < l.to; i++ {
		z := (s.y[i] - l.at(i)) / s.sigma
		sum += min(z*z, clip*clip)
	}
	return sum
}

// changesBetween is where one stretch ends far from where the next begins: the changes of level among drifts.
func (s series) changesBetween(stretches []stretch) []int {
	var cuts []int
	for i := 1; i < len(stretches); i++ {
		d := math.Abs(s.edge(stretches[i], false) - s.edge(stretches[i-1], true))
		if math.Exp(d)-1 >= s.minEffect {
			cuts = append(cuts, stretches[i].from)
		}
	}
	return cuts
}

// edge is the first or last value of a stretch's level or line.
func (s series) edge(p stretch, last bool) float64 {
	switch {
	case p.line == nil:
		return stat.Median(s.y[p.from:p.to])
	case last:
		return p.line.at(p.to - 1)
	}
	return p.line.at(p.from)
}
