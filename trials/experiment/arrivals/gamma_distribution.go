package arrivals

import (
	"math"
	"time"

	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
)

// gammaVariable draws from the gamma distribution of a shape, with scale 1 (Marsaglia and Tsang, 2000).
func gammaVariable(r *virtualtime.Random, shape float64) float64 {
	if shape < 1 {
		return gammaVariable(r, shape+1) * math.Pow(1-r.Float64(), 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.Normal()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(1-r.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

// GammaShape is the shape of the gamma distribution with this mean and this median, which must lie below it.
func GammaShape(mean, median time.Duration) float64 {
	low, high := 0.05, 1000.0
	for range 100 {
		shape := math.Sqrt(low * high)
		if GammaCDF(shape, shape*median.Seconds()/mean.Seconds()) > 0.5 {
			low = shape // more mass below the median than half: the distribution is too skewed
		} else {
			high = shape
		}
	}
	return math.Sqrt(low * high)
}

// GammaCDF is the probability that a gamma variable of this shape and of scale 1 is at most x (Abramowitz and Stegun,
// 6.5.29).
func GammaCDF(shape, x float64) float64 {
	if x <= 0 {
		return 0
	}
	if x > shape+40*math.Sqrt(shape)+40 {
		return 1
	}
	term := 1 / shape
	sum := term
	for n := 1.0; n < 10000 && term > sum*1e-16; n++ {
		term *= x / (shape + n)
		sum += term
	}
	lg, _ := math.Lgamma(shape)
	return min(1, sum*math.Exp(-x+shape*math.Log(x)-lg))
}
