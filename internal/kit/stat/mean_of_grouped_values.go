package stat

import "math"

// GroupedMean is the mean of values that come in groups, with what its error follows from. Values of one group are
// alike, such as games from the same start: only groups count as independent of each other. Zero: nothing is known.
// It holds no sums of squares, so that nothing is lost where values are large beside their differences.
type GroupedMean struct {
	Groups int     `json:"groups"`
	N      int     `json:"n"` // values
	Mean   float64 `json:"mean"`
	Within float64 `json:"within"` // squared differences of the values from the means of their groups, summed
	// Weight is the squared sizes of the groups, summed; Center and Spread are the mean of the groups' means and the
	// squared differences from it, each group weighted by its squared size.
	Weight float64 `json:"weight"`
	Center float64 `json:"center"`
	Spread float64 `json:"spread"`
}

// OneGroup is the mean of values that are all of one group.
func OneGroup(values []float64) GroupedMean {
	if len(values) == 0 {
		return GroupedMean{}
	}
	mean, within := Moments(values)
	n := len(values)
	return GroupedMean{Groups: 1, N: n, Mean: mean, Within: within, Weight: float64(n) * float64(n), Center: mean}
}

// Add is the values of both, which share no group.
func (m GroupedMean) Add(o GroupedMean) GroupedMean {
	if m.N == 0 || o.N == 0 {
		if m.N == 0 {
			return o
		}
		return m
	}
	n, weight := m.N+o.N, m.Weight+o.Weight
	apart := o.Center - m.Center
	return GroupedMean{Groups: m.Groups + o.Groups, N: n, Mean: m.Mean + (o.Mean-m.Mean)*float64(o.N)/float64(n),
		Within: m.Within + o.Within, Weight: weight, Center: m.Center + apart*o.Weight/weight,
		Spread: m.Spread + o.Spread + apart*apart*m.Weight*o.Weight/weight}
}

// Interval holds the true mean with a probability: the error of a ratio of sums over groups, with as many degrees of
// freedom as there are groups but one.
func (m GroupedMean) Interval(confidence float64) Interval {
	i := Interval{Mean: m.Mean, Half: -1, N: m.Groups}
	if m.Groups < 2 {
		return i
	}
	g, off := float64(m.Groups), m.Center-m.Mean
	squares := m.Spread + m.Weight*off*off // of n x (mean of the group - mean)
	i.Half = StudentT(confidence, m.Groups-1) * math.Sqrt(g/(g-1)*squares) / float64(m.N)
	return i
}

// Deviation is that of values within a group, over all groups; not a number where no group has two.
func (m GroupedMean) Deviation() float64 {
	if m.N <= m.Groups {
		return math.NaN()
	}
	return math.Sqrt(m.Within / float64(m.N-m.Groups))
}
