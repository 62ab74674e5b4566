package trial

import (
	"math"
	"slices"
)

// Ratios is one policy's total time and engine-hours as shares of another's, by workload.
type Ratios struct{ Time, Hours []float64 }

// Against compares a policy with another in all workloads.
func Against(all []Comparison, policy, other func(*Comparison) Summary) Ratios {
	var r Ratios
	for i := range all {
		p, o := policy(&all[i]), other(&all[i])
		r.Time = append(r.Time, p.Sec/o.Sec)
		r.Hours = append(r.Hours, p.Hours/o.Hours)
	}
	return r
}

// Together is the sums of one policy over all workloads, as shares of another's.
func Together(all []Comparison, policy, other func(*Comparison) Summary) (sec, hours float64) {
	var otherSec, otherHours float64
	for i := range all {
		p, o := policy(&all[i]), other(&all[i])
		sec, hours = sec+p.Sec, hours+p.Hours
		otherSec, otherHours = otherSec+o.Sec, otherHours+o.Hours
	}
	return sec / otherSec, hours / otherHours
}

// Share is the share of the workloads whose ratios hold.
func (r Ratios) Share(holds func(time, hours float64) bool) float64 {
	n := 0
	for i := range r.Time {
		if holds(r.Time[i], r.Hours[i]) {
			n++
		}
	}
	return float64(n) / float64(max(1, len(r.Time)))
}

// Mean is the mean of ratios, and Quantile the value that so many of them do not exceed.
func Mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(1, len(values)))
}

// Quantile interpolates linearly.
func Quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		return 0
	}
	at := q * float64(len(sorted)-1)
	low := int(math.Floor(at))
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (sorted[high]-sorted[low])*(at-float64(low))
}
