package runhistory

import (
	"math"

	"github.com/millrace/millrace/internal/rollout"
)

// Mean is a mean with what its error follows from. Count 0: nothing is known.
type Mean struct {
	Count      int
	Sum, SumSq float64
}

// VersionMean is the reward of the games that one policy version played.
type VersionMean struct {
	Version rollout.PolicyVersion
	Reward  Mean
}

// Add is both samples as one.
func (m Mean) Add(o Mean) Mean { return Mean{m.Count + o.Count, m.Sum + o.Sum, m.SumSq + o.SumSq} }

// Value is the mean; not a number where nothing is known.
func (m Mean) Value() float64 {
	if m.Count == 0 {
		return math.NaN()
	}
	return m.Sum / float64(m.Count)
}

// Interval is half the width of the mean's 95 % interval; 0 where the spread is not known.
func (m Mean) Interval() float64 {
	if m.Count < 2 {
		return 0
	}
	n := float64(m.Count)
	variance := max(0, (m.SumSq-m.Sum*m.Sum/n)/(n-1))
	return 1.96 * math.Sqrt(variance/n)
}
