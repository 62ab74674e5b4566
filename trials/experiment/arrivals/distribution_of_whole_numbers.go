package arrivals

import (
	"errors"
	"fmt"
	"math"

	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
)

// Draw is a distribution of whole numbers. Choose one: Value, or Min and Max (uniform), or Mean and CV (lognormal), or
// Values with their Weights. The zero Draw is always 1.
type Draw struct {
	Value   int     `json:"value"`
	Min     int     `json:"min"`
	Max     int     `json:"max"`
	Mean    float64 `json:"mean"`
	CV      float64 `json:"cv"`
	Values  []int   `json:"values"`
	Weights []int   `json:"weights"` // none: all alike
}

// Random reports whether chance plays.
func (d Draw) Random() bool {
	return d.Value == 0 && (d.Max > d.Min || d.Mean > 0 && d.CV > 0 || len(d.Values) > 1)
}

// Validate reports what is wrong with a distribution.
func (d Draw) Validate() error {
	given := 0
	for _, is := range []bool{d.Value != 0, d.Min != 0 || d.Max != 0, d.Mean != 0 || d.CV != 0, len(d.Values) > 0} {
		if is {
			given++
		}
	}
	switch {
	case given > 1:
		return errors.New("give one of value, min and max, mean and cv, values")
	case d.Value < 0 || d.Min < 0 || d.Mean < 0 || d.CV < 0:
		return errors.New("lengths and counts are not negative")
	case d.Max < d.Min:
		return fmt.Errorf("max is %d and min is %d: the greatest must not be less than the least", d.Max, d.Min)
	case d.CV > 0 && d.Mean == 0:
		return errors.New("cv without mean")
	case len(d.Weights) > 0 && len(d.Weights) != len(d.Values):
		return fmt.Errorf("%d weights for %d values: give one for each, or none", len(d.Weights), len(d.Values))
	}
	sum := 0
	for i, v := range d.Values {
		if v < 0 || len(d.Weights) > 0 && d.Weights[i] < 0 {
			return errors.New("values and weights are not negative")
		}
		sum += d.weight(i)
	}
	if len(d.Values) > 0 && sum == 0 {
		return errors.New("all weights are 0")
	}
	return nil
}

func (d Draw) weight(i int) int {
	if len(d.Weights) == 0 {
		return 1
	}
	return d.Weights[i]
}

// Next draws a number; of lognormal lengths at least 1.
func (d Draw) Next(r *virtualtime.Random) int {
	switch {
	case d.Value > 0:
		return d.Value
	case len(d.Values) > 0:
		return d.choose(r)
	case d.Max > 0:
		return d.Min + r.IntN(d.Max-d.Min+1)
	case d.Mean > 0:
		variance := math.Log(1 + d.CV*d.CV)
		x := d.Mean
		if d.CV > 0 {
			x = math.Exp(math.Log(d.Mean) - variance/2 + math.Sqrt(variance)*r.Normal())
		}
		return max(1, int(math.Round(x)))
	}
	return 1
}

func (d Draw) choose(r *virtualtime.Random) int {
	sum := 0
	for i := range d.Values {
		sum += d.weight(i)
	}
	at := r.IntN(sum)
	for i, v := range d.Values {
		if at -= d.weight(i); at < 0 {
			return v
		}
	}
	return d.Values[len(d.Values)-1]
}
