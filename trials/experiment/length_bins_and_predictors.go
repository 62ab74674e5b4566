package experiment

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
	"github.com/millrace/millrace/trials/experiment/openloop"
	"github.com/millrace/millrace/trials/experiment/staticbatch"
)

// Prediction is what a predictor says that knows the prompt alone: factor x prompt^exponent, lognormal around it.
type Prediction struct {
	Factor   float64 `json:"factor"`
	Exponent float64 `json:"exponent"`
	Spread   float64 `json:"spread"` // standard deviation of the logarithm
}

// maxPrediction is the longest answer that is predicted.
const maxPrediction = 4096

func (p Prediction) of(prompt int, r *virtualtime.Random) int {
	tokens := p.Factor * math.Pow(float64(prompt), p.Exponent) * math.Exp(p.Spread*r.Normal())
	return max(1, min(maxPrediction, int(tokens)))
}

// BinEnds says where bins end.
type BinEnds string

// The ways; the empty one is what dispatch.batching says: its boundaries, or what the dispatcher learns.
const (
	AsDispatched    BinEnds = "as_dispatched"
	EqualMassBins   BinEnds = "equal_mass"  // equally many of all lengths that the dispatcher is told
	OptimalBins     BinEnds = "optimal"     // the least expected longest request of full batches
	ExponentialBins BinEnds = "exponential" // as for exponential lengths of the same mean
)

// length is a request's length by which bins go, as the dispatcher is told it.
func (s *Setting) binLength(r *openloop.Request) int {
	if s.Dispatch.Batching.BinBy == staticbatch.TotalLength {
		return r.Prompt + r.Predicted
	}
	return r.Predicted
}

// endBins is the setting with bins that end where they are asked to, for these requests.
func (s Setting) endBins(requests []openloop.Request) Setting {
	k, batch := s.Dispatch.Batching.Bins, max(1, s.Dispatch.Batching.MaxBatchSize)
	if s.BinEnds == AsDispatched || k < 2 {
		return s
	}
	lengths := make([]int, len(requests))
	sum := 0.0
	for i := range requests {
		lengths[i] = s.binLength(&requests[i])
		sum += float64(lengths[i])
	}
	var ends []int
	switch s.BinEnds {
	case OptimalBins:
		ends = openloop.OptimalBins(lengths, k, batch)
	case ExponentialBins:
		for _, end := range openloop.ExponentialBins(sum/float64(len(lengths)), k, batch) {
			ends = append(ends, int(math.Round(end)))
		}
	default:
		ends = staticbatch.EqualMass(lengths, k)
	}
	s.Dispatch.Batching.Boundaries = rising(ends)
	s.Dispatch.Batching.Bins = len(s.Dispatch.Batching.Boundaries) + 1
	return s
}

// rising is ends in order, each once: where many requests have the same length, bins of equal mass fall together.
func rising(ends []int) []int {
	return slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(ends))), func(end int) bool { return end < 1 })
}

// binOf is the bin of a length.
func (s *Setting) binOf(length int) int {
	bin := 0
	for _, end := range s.Dispatch.Batching.Boundaries {
		if length >= end {
			bin++
		}
	}
	return bin
}

// misplace tells a length in a neighbouring bin of some requests: of an inner bin as often in the one below as in the
// one above.
func (s *Setting) misplace(requests []openloop.Request, seed uint64) {
	ends := s.Dispatch.Batching.Boundaries
	if s.ToldBeside == 0 || len(ends) == 0 {
		return
	}
	chance := virtualtime.NewRandom(seed, "bins beside")
	for i := range requests {
		r := &requests[i]
		bin, x := s.binOf(s.binLength(r)), chance.Float64()
		switch {
		case x < s.ToldBeside && bin > 0:
			bin--
		case x < s.ToldBeside, x < 2*s.ToldBeside && bin > 0 && bin < len(ends):
			bin++
		default:
			continue
		}
		length := binMiddle(ends, bin)
		if s.Dispatch.Batching.BinBy == staticbatch.TotalLength {
			length -= r.Prompt
		}
		r.Predicted = max(1, length)
	}
}

// binMiddle is a length in a bin.
func binMiddle(ends []int, bin int) int {
	if bin == len(ends) {
		return ends[bin-1]
	}
	from := 0
	if bin > 0 {
		from = ends[bin-1]
	}
	return (from + ends[bin]) / 2
}

// ofBin is the model that an engine of a bin serves.
func ofBin(bin int) string { return fmt.Sprintf("bin-%d", bin) }

// binsOf is the bins that an engine has, if each has its own.
func (s *Setting) binsOf(engine int) []string {
	var models []string
	bins := len(s.Dispatch.Batching.Boundaries) + 1
	for bin := range bins {
		if s.Engines >= bins && engine%bins == bin || s.Engines < bins && bin%s.Engines == engine {
			models = append(models, ofBin(bin))
		}
	}
	return models
}

// composition takes the metrics of each bin: how alike the answers of a batch are.
func (s *Setting) composition(m map[string]float64, requests []openloop.Request, o openloop.Outcome) {
	bins := func(i int) int { return s.binOf(s.binLength(&requests[i])) }
	for bin := range max(1, len(s.Dispatch.Batching.Boundaries)+1) {
		c := o.Composition(bin, bins, func(i int) int { return requests[i].Output })
		for name, value := range map[string]float64{
			"batches": float64(c.Batches), "requests": float64(c.Requests), "mean": c.Mean, "variance": c.Variance,
			"range": c.Range, "max_over_mean": c.MaxOverMean, "padding": c.Padding,
		} {
			m[fmt.Sprintf("bin_%d_%s", bin, name)] = value
		}
	}
}

// binMetrics is what is measured of each bin, and how a column is called.
var binMetrics = []Metric{
	{Name: "batches", Head: "BIN %s BATCHES", Doc: "batches of one bin"},
	{Name: "requests", Head: "BIN %s REQUESTS", Doc: "requests of one bin"},
	{Name: "mean", Head: "BIN %s MEAN", Doc: "output tokens of its requests, mean"},
	{Name: "variance", Head: "BIN %s VARIANCE", Doc: "variance of output tokens within a batch, mean over its batches"},
	{Name: "range", Head: "BIN %s RANGE", Doc: "longest minus shortest answer of a batch, mean"},
	{Name: "max_over_mean", Head: "BIN %s MAX/MEAN", Doc: "longest over mean answer of a batch, mean"},
	{Name: "padding", Head: "BIN %s PADDING", Doc: "1 - mean / longest answer of a batch, mean", Share: true},
}

// wholePrediction is a prediction with defaults: those of seed note 003.
func (p Prediction) orDefault() Prediction {
	if p == (Prediction{}) {
		return Prediction{Factor: 1.5, Exponent: 0.7, Spread: 0.1}
	}
	p.Factor, p.Exponent = cmp.Or(p.Factor, 1), cmp.Or(p.Exponent, 1)
	return p
}
