package calibration

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/simulate/sim"
)

// What is assumed of the fitted parameters where the record says nothing of them.
const (
	assumedCall    = 0.005 // seconds
	assumedSpread  = 0.3
	assumedStretch = 1.1
)

// fitEngines finds the time factor, the overhead of a call and the spread of answers with which the simulated groups'
// requests take as long as the recorded ones: least squares by Gauss and Newton, over each group's mean request and the
// mean of its phases' slowest requests. What the record does not determine stays near what is assumed of it.
func (c *calibrator) fitEngines(ctx context.Context) error {
	f := &engineFit{calibrator: c, ctx: ctx, recorded: map[rollout.GroupSeq]groupTimes{}}
	for _, s := range c.steps {
		for _, g := range s.Service.Groups {
			if t := timesOf(g); t.request > 0 {
				seq := g.Seq - c.firstSeq
				f.recorded[seq], f.order = t, append(f.order, seq)
			}
		}
	}
	if len(f.order) == 0 {
		return fmt.Errorf("%w: no group has the times of its requests", ErrUndetermined)
	}
	if err := f.search(); err != nil {
		return err
	}
	f.describe()
	c.compare(f.result, f.simulations)
	return nil
}

// groupTimes is how long a group's requests took at engines, in seconds.
type groupTimes struct {
	request  float64 // mean
	slowest  float64 // mean over phases of the slowest request
	unqueued bool
	base     bool // sampled by the base model, without an adapter
}

func timesOf(g steprecord.GroupView) groupTimes {
	phases, model := 0, 0.0
	for i, n := range g.Phases {
		if i < len(g.ModelSec) {
			phases, model = phases+n, model+g.ModelSec[i]
		}
	}
	if g.Usage.Requests == 0 || g.Usage.ExecSec <= 0 || phases == 0 {
		return groupTimes{}
	}
	return groupTimes{
		request: g.Usage.ExecSec / float64(g.Usage.Requests), slowest: model / float64(phases),
		unqueued: hardlyQueued(g.Usage), base: g.MinVersion == 0,
	}
}

// point is values of the fitted parameters.
type point [3]float64

// The places of the parameters in a point.
const (
	logFactor = iota
	call      // seconds
	stretch   // of the spread of answers
)

// engineFit looks for the point that meets the record best.
type engineFit struct {
	*calibrator
	ctx         context.Context
	recorded    map[rollout.GroupSeq]groupTimes
	order       []rollout.GroupSeq
	simulations int
	scale       float64 // of a call's overhead: the recorded mean request

	best   point
	result sim.Result
	error  float64    // sum of squares at best
	shares [3]float64 // of what is known of each parameter at best: how much the record says, less what was assumed
}

// How far residuals and assumptions are trusted: a group's mean request differs from the model by some per cent by
// chance alone.
const (
	chance         = 0.05 // relative, of one group
	callTrusted    = 1.0  // of the mean request
	stretchTrusted = 0.3
)

// search simulates the record with ever better points. The first guess scales the profile so that the mean request
// takes as long as recorded.
func (f *engineFit) search() error {
	mean := 0.0
	for _, seq := range f.order {
		mean += f.recorded[seq].request / float64(len(f.order))
	}
	f.scale = mean
	f.best = point{0, min(assumedCall, mean/10), assumedStretch}
	if _, err := f.simulate(f.best); err != nil {
		return err
	}
	f.best[logFactor] = math.Log((mean - f.best[call]) / max(f.simulatedMean()-f.best[call], mean*1e-6))
	residuals, err := f.simulate(f.best)
	if err != nil {
		return err
	}
	f.error = floats.Dot(residuals, residuals)
	const rounds, enough = 4, 0.02
	for range rounds {
		before := f.error
		if residuals, err = f.improve(residuals); err != nil {
			return err
		}
		if f.error > before*(1-enough) {
			break
		}
	}
	if _, err := f.simulate(f.best); err != nil {
		return err
	}
	return nil
}

// improve makes one step of Gauss and Newton, or half of one, if that is better.
func (f *engineFit) improve(residuals []float64) ([]float64, error) {
	steps := point{0.05, max(0.05*f.scale, 0.001), 0.1}
	var slopes [3][]float64
	for k := range steps {
		moved := f.best
		moved[k] += steps[k]
		there, err := f.simulate(moved)
		if err != nil {
			return nil, err
		}
		slopes[k] = make([]float64, len(there))
		for i := range there {
			slopes[k][i] = (there[i] - residuals[i]) / steps[k]
		}
	}
	change := f.newton(slopes, residuals)
	for half := 1.0; half > 0.2; half /= 2 {
		next := f.best
		for k := range next {
			next[k] += half * change[k]
		}
		next[call] = min(max(next[call], 0), 0.9*f.scale)
		next[stretch] = min(max(next[stretch], 0.5), 2)
		there, err := f.simulate(next)
		if err != nil {
			return nil, err
		}
		if e := floats.Dot(there, there); e < f.error {
			f.best, f.error = next, e
			return there, nil
		}
	}
	return residuals, nil
}

// newton is the step that would end at the least sum of squares if the residuals were linear; none where the record
// does not determine one.
func (f *engineFit) newton(slopes [3][]float64, residuals []float64) (step point) {
	normal, right := make([][]float64, len(step)), make([]float64, len(step))
	assumptions := len(residuals) - len(step)
	for a, slope := range slopes {
		for _, other := range slopes {
			normal[a] = append(normal[a], floats.Dot(slope, other))
		}
		right[a] = -floats.Dot(slope, residuals)
		record := slope[:assumptions]
		f.shares[a] = floats.Dot(record, record) / max(normal[a][a], 1e-12)
	}
	if x, ok := stat.Solve(normal, right); ok {
		step = point(x)
	}
	return step
}

// set puts a point into the setup.
func (f *engineFit) set(p point) {
	f.setup.Fleet.TimeFactor = math.Exp(p[logFactor])
	f.setup.Overheads.Call = duration(p[call])
	f.setup.Workload.Recorded.Games.SpreadAnswers(p[stretch])
}

// simulate plays the recorded run and says how far its groups' times are from the recorded ones. The last residuals are
// how far the parameters are from what is assumed of them.
func (f *engineFit) simulate(p point) ([]float64, error) {
	f.set(p)
	f.simulations++
	result, err := sim.Run(f.ctx, f.setup, sim.Options{})
	if err != nil {
		return nil, fmt.Errorf("simulate the recorded run: %w", err)
	}
	f.result = result
	simulated := map[rollout.GroupSeq]groupTimes{}
	for _, s := range result.Input.Records {
		for _, g := range s.Service.Groups {
			simulated[g.Seq] = timesOf(g)
		}
	}
	var residuals []float64
	for _, seq := range f.order {
		r, s := f.recorded[seq], simulated[seq]
		distance := func(recorded, simulated float64) float64 {
			if recorded <= 0 || simulated <= 0 || r.base != s.base { // an adapter takes time
				return 0
			}
			return math.Log(simulated/recorded) / chance
		}
		slowest := 0.0
		if r.unqueued { // the slowest of a phase is the one that waited longest, not the one with the longest answer
			slowest = distance(r.slowest, s.slowest)
		}
		residuals = append(residuals, distance(r.request, s.request), slowest)
	}
	return append(residuals, 0,
		(p[call]-min(assumedCall, f.scale/10))/(callTrusted*f.scale),
		(p[stretch]-assumedStretch)/stretchTrusted), nil
}

// simulatedMean is the mean request of the latest simulation.
func (f *engineFit) simulatedMean() float64 {
	var all sums
	for _, s := range f.result.Input.Records {
		all.add(s)
	}
	return all.requestSec()
}

// describe says what was found.
func (f *engineFit) describe() {
	from := func(k int) Source {
		const half = 0.5
		if f.shares[k] < half {
			return Assumed
		}
		return Fitted
	}
	how := func(k int, fitted string) string {
		if from(k) == Assumed {
			return "the record hardly shows it: engines were full all the time, or nothing varied"
		}
		return fitted
	}
	s := f.setup
	f.say("fleet.time_factor", fmt.Sprintf("%.4f", s.Fleet.TimeFactor), from(logFactor),
		how(logFactor, fmt.Sprintf("mean time of the requests of %d groups", len(f.order))))
	f.say("overheads.call", s.Overheads.Call.String(), from(call),
		how(call, "what requests take whatever their tokens are"))
	f.say("answers differ", fmt.Sprintf("%.2f x times", f.best[stretch]), from(stretch),
		how(stretch, "how much longer the slowest request of a phase takes"))
}
