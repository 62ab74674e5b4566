package calibration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/millrace/millrace/internal/diagnosis/runrecord"
	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/simulate/sim"
)

// fewestSteps is how many steps that are done, with their groups, a record must have. Of a long run the newest ones are
// taken, of mostRequests in all, because their simulation is repeated some twenty times.
const (
	fewestSteps  = 3
	mostRequests = 100_000
)

// Calibrate makes the setup that plays a recorded run again. What can be read off the record is: the games, the fleet,
// the trainer's phases, the overheads. How fast the engines are, what a call takes beside them, and how much the
// answers of one phase differ in length, is fitted: the recorded run is simulated until its requests take as long as
// recorded.
func Calibrate(ctx context.Context, r *runrecord.Record, o Options) (*Calibration, error) {
	o.Profile = cmp.Or(o.Profile, sim.DefaultProfile)
	c := &calibrator{record: r, options: o}
	if err := c.usableSteps(); err != nil {
		return nil, err
	}
	c.setup = sim.Setup{Spec: r.Run.Spec}
	c.setup.Steps = len(c.steps)
	if err := c.games(); err != nil {
		return nil, err
	}
	c.fleet()
	c.trainer()
	c.overheads()
	if err := c.fitEngines(ctx); err != nil {
		return nil, err
	}
	for _, gap := range r.Gaps {
		c.warn("%s", gap)
	}
	c.setup.Steps = r.Run.Spec.Steps
	return &Calibration{Setup: c.setup, Parameters: c.parameters, Fit: c.fit, Warnings: c.warnings}, nil
}

// calibrator fills in a setup.
type calibrator struct {
	record     *runrecord.Record
	options    Options
	steps      []steprecord.StepRecord // done, with their groups, one after another
	firstStep  rollout.Step            // of these; it is the simulated run's step 0
	firstSeq   rollout.GroupSeq        // of their groups; it is the simulated run's group 0
	setup      sim.Setup
	parameters []Parameter
	warnings   []string
	fit        Fit
}

func (c *calibrator) say(name, value string, from Source, how string) {
	c.parameters = append(c.parameters, Parameter{Name: name, Value: value, From: from, How: how})
}

func (c *calibrator) warn(format string, args ...any) {
	c.warnings = append(c.warnings, fmt.Sprintf(format, args...))
}

// usableSteps is the newest unbroken row of steps that are done and still have their groups.
func (c *calibrator) usableSteps() error {
	done := c.record.Done()
	requests, left := int64(0), false
	for i := len(done) - 1; i >= 0; i-- {
		s := done[i]
		if len(s.Service.Groups) == 0 || len(c.steps) > 0 && s.Step != c.steps[0].Step-1 {
			break
		}
		for i := range s.Service.Groups {
			requests += s.Service.Groups[i].Usage.Requests
		}
		if left = requests > mostRequests && len(c.steps) >= fewestSteps; left {
			break
		}
		c.steps = append([]steprecord.StepRecord{s}, c.steps...)
	}
	if len(c.steps) < fewestSteps {
		return fmt.Errorf("%w: %d steps are done and have their groups, %d are needed; record the run when it has gone on",
			ErrUndetermined, len(c.steps), fewestSteps)
	}
	c.firstStep, c.firstSeq = c.steps[0].Step, c.steps[0].Service.Groups[0].Seq
	for _, g := range c.steps[0].Service.Groups {
		c.firstSeq = min(c.firstSeq, g.Seq)
	}
	switch {
	case left:
		c.warn("only the steps from step %d on were taken, which are some %d requests; the simulated run begins with them",
			c.firstStep, mostRequests)
	case c.firstStep > 0:
		c.warn("the steps before step %d have no groups any more; the simulated run begins with the groups after them",
			c.firstStep)
	default:
		c.firstSeq = 0
	}
	dropped := map[rollout.Code]int64{}
	for _, d := range c.record.Departures {
		if d.Code != steprecord.Trained {
			dropped[d.Code] += d.Groups
		}
	}
	for _, d := range c.record.Departures {
		if n := dropped[d.Code]; n > 0 {
			c.warn("%d groups were dropped (%s); the simulated run drops groups by its own rules", n, d.Code)
			delete(dropped, d.Code)
		}
	}
	return nil
}

// compare says how well a simulated run meets the record.
func (c *calibrator) compare(result sim.Result, simulations int) {
	f := Fit{Simulations: simulations}
	simulated := map[rollout.Step]steprecord.StepRecord{}
	for _, s := range result.Input.Records {
		simulated[s.Step] = s
	}
	var errors []float64
	var recorded, again sums
	for _, s := range c.steps {
		other, ok := simulated[s.Step-c.firstStep]
		if !ok {
			continue
		}
		f.Steps = append(f.Steps, StepFit{s.Step, Pair{s.StepSec(), other.StepSec()}})
		errors = append(errors, math.Abs(other.StepSec()/s.StepSec()-1))
		recorded.add(s)
		again.add(other)
	}
	if len(errors) > 0 {
		f.MedianError = stat.Median(errors)
	}
	as := make([]steprecord.StepRecord, len(c.steps)) // numbered as the simulated ones are
	for i, s := range c.steps {
		s.Step -= c.firstStep
		as[i] = s
	}
	f.Window = Steady(c.setup.Buffer.Depth, as, result.Input.Records)
	f.MeanStep = Pair{f.Window.MeanStep(as), f.Window.MeanStep(result.Input.Records)}
	f.Window.From, f.Window.To = f.Window.From+c.firstStep, f.Window.To+c.firstStep
	f.RequestSec = Pair{recorded.requestSec(), again.requestSec()}
	f.BusyShare = Pair{recorded.busyShare(), again.busyShare()}
	c.fit = f
}

// sums adds up step records.
type sums struct {
	usage        rollout.Usage
	busy, window float64
}

func (s *sums) add(r steprecord.StepRecord) {
	for i := range r.Service.Groups {
		s.usage = s.usage.Add(r.Service.Groups[i].Usage)
	}
	sec := r.Service.Fleet.WindowSec * r.Service.Fleet.Engines
	s.busy, s.window = s.busy+sec*r.Service.Fleet.BusyShare, s.window+sec
}

func (s *sums) requestSec() float64 { return s.usage.ExecSec / max(float64(s.usage.Requests), 1) }

func (s *sums) busyShare() float64 {
	if s.window == 0 {
		return 0
	}
	return s.busy / s.window
}

// Options are what a calibration is told beside the record.
type Options struct {
	// Profile is the hardware of the engines, as a setup names it; empty: sim.DefaultProfile. Its times are multiplied by
	// a factor that is fitted, so that the shape of it matters, and not how fast it is.
	Profile string
}

// ErrUndetermined is returned for a record that does not say enough: too few steps, or nothing of its games.
var ErrUndetermined = errors.New("the record does not determine a simulation")
