package arrivals

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
)

// Arrivals says when calls come, how many requests each of them has, and how long these are.
type Arrivals struct {
	Process ArrivalProcess   `json:"process"`
	Calls   int              `json:"calls"`  // of a trace: the first so many requests; 0: all
	Gap     rollout.Duration `json:"gap"`    // mean time between calls, or between bursts
	Median  rollout.Duration `json:"median"` // median time between calls, of the process gamma
	Burst   int              `json:"burst"`  // calls in a burst
	Trace   string           `json:"trace"`
	Faster  float64          `json:"faster"` // divides the times of a trace; 0: 1

	Prompts Draw `json:"prompts"` // requests in a call
	Prompt  Draw `json:"prompt"`  // tokens
	Output  Draw `json:"output"`  // tokens
}

// ArrivalProcess names a way in which calls come.
type ArrivalProcess string

// The processes.
const (
	PoissonArrivals ArrivalProcess = "poisson" // gaps from an exponential distribution
	GammaArrivals   ArrivalProcess = "gamma"   // from a gamma distribution of a given mean and median
	EvenArrivals    ArrivalProcess = "even"    // all gaps alike
	BurstArrivals   ArrivalProcess = "bursts"  // several calls at once, then a gap
	AtOnceArrivals  ArrivalProcess = "at_once" // all calls at time zero
	TraceArrivals   ArrivalProcess = "trace"
)

// ArrivalProcesses lists the processes.
func ArrivalProcesses() []ArrivalProcess {
	return []ArrivalProcess{PoissonArrivals, GammaArrivals, EvenArrivals, BurstArrivals, AtOnceArrivals, TraceArrivals}
}

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

// Random reports whether chance plays.
func (a Arrivals) Random() bool {
	return a.Process == PoissonArrivals || a.Process == GammaArrivals || a.Prompts.Random() || a.Prompt.Random() ||
		a.Output.Random()
}

// Validate reports what is wrong with arrivals, by key.
func (a Arrivals) Validate(fault func(key, text string)) {
	for _, part := range []struct {
		key string
		d   Draw
	}{{"prompts", a.Prompts}, {"prompt", a.Prompt}, {"output", a.Output}} {
		if err := part.d.Validate(); err != nil {
			fault(part.key, err.Error())
		}
	}
	timed := a.Process != AtOnceArrivals && a.Process != TraceArrivals
	switch {
	case a.Process == TraceArrivals && a.Trace == "":
		fault("trace", "is missing: a trace that comes with the program, or a file")
	case a.Process != TraceArrivals && a.Calls < 1:
		fault("calls", "is missing: how many calls come")
	case timed && a.Gap <= 0:
		fault("gap", "is missing: the mean time between calls")
	case a.Process == GammaArrivals && (a.Median <= 0 || a.Median >= a.Gap):
		fault("median", fmt.Sprintf("is %v: want a median gap above 0 and below the mean gap, which is %v", a.Median, a.Gap))
	case a.Process == BurstArrivals && a.Burst < 1:
		fault("burst", "is missing: how many calls come at once")
	}
}

// Draw makes the arrivals of a valid process. Gaps, sizes and lengths have streams of their own, so that a change of
// one leaves the others as they are.
func (a Arrivals) Draw(seed uint64) Trace {
	gaps, sizes := virtualtime.NewRandom(seed, "gaps"), virtualtime.NewRandom(seed, "prompts of a call")
	lengths := virtualtime.NewRandom(seed, "lengths")
	t := Trace{Name: string(a.Process)}
	next, at := a.gaps(gaps), 0.0
	for call := range a.Calls {
		at += next(call)
		for range max(1, a.Prompts.Next(sizes)) {
			t.Arrivals = append(t.Arrivals, Arrival{At: time.Duration(math.Round(at * 1e9)), Prompt: a.Prompt.Next(lengths),
				Output: a.Output.Next(lengths), Call: call})
		}
	}
	return t
}

// Of gives the arrivals of a trace their place in time; a trace without lengths or with calls of one request gets drawn
// ones only where the setting asks for them.
func (a Arrivals) Of(t Trace, seed uint64) Trace {
	if a.Process == TraceArrivals {
		t = t.Limit(a.Calls)
	}
	t = t.FromFirst().Faster(cmp.Or(a.Faster, 1))
	if t.hasLengths() { // requests that failed have none
		return t
	}
	lengths := virtualtime.NewRandom(seed, "lengths")
	for i := range t.Arrivals {
		at := &t.Arrivals[i]
		at.Prompt, at.Output = a.Prompt.Next(lengths), a.Output.Next(lengths)
	}
	return t
}

// gaps is the time from the call before to each call, in seconds. The first call comes at time zero.
func (a Arrivals) gaps(r *virtualtime.Random) func(call int) float64 {
	mean := a.Gap.Seconds()
	draw := func(int) float64 { return mean }
	switch a.Process {
	case PoissonArrivals:
		draw = func(int) float64 { return mean * r.Exponential() }
	case GammaArrivals:
		shape := GammaShape(a.Gap.Std(), a.Median.Std())
		draw = func(int) float64 { return mean * gammaVariable(r, shape) / shape }
	case BurstArrivals:
		draw = func(call int) float64 {
			if call%a.Burst != 0 {
				return 0
			}
			return mean
		}
	case AtOnceArrivals:
		draw = func(int) float64 { return 0 }
	}
	return func(call int) float64 {
		if call == 0 {
			return 0
		}
		return draw(call)
	}
}

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
