package arrivals

import (
	"cmp"
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
