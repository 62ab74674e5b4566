package plan

import (
	"context"

	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/kit/stat"

	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/simulate/sim"
)

// play is how a setting is simulated: from an empty or a full buffer, for so many steps.
type play struct {
	request  Request
	setting  Setting
	simulate Simulate
	prefill  runspec.Prefill
	steps    int
}

// playCell simulates one setting with every seed. Only an interruption is an error: a setting that cannot be simulated
// says so.
func playCell(ctx context.Context, r Request, s Setting, simulate Simulate) (Cell, error) {
	c := Cell{Setting: s}
	if admitted := r.Setup.Buffer.AdmittedSteps(0); s.Depth > admitted {
		c.NeedsStaleness = int64(s.Depth)
	}
	if refused := r.refusal(s); refused != "" {
		c.Refused = refused
		return c, nil
	}
	p := play{r, s, simulate, runspec.PrefillBatch, r.Conditions.lossStep() + length(s.Depth)}
	var figures []figures
	first, steady, err := p.first(ctx)
	if err == nil {
		figures = append(figures, first)
		c.Unsteady = !steady
		c.PrefillSec, err = p.prefillSec(ctx)
	}
	for seed := 1; seed < r.Seeds && err == nil; seed++ {
		var one outcome
		if one, err = p.run(ctx, seed); err == nil {
			figures = append(figures, one.figures)
		}
	}
	if err != nil {
		if ctx.Err() != nil {
			return c, ctx.Err()
		}
		c.Refused = err.Error()
		return c, nil
	}
	c.summarize(r, figures)
	return c, nil
}

// first plays the first seed, and decides how all are played. A setting that starves is played from an empty buffer: a
// full one would have to be emptied first, which takes the longer the less the engines lack. One that does not starve
// is played from a full buffer, which would have to be filled. What is not steady then is played for longer.
func (p *play) first(ctx context.Context) (figures, bool, error) {
	one, err := p.run(ctx, 0)
	if err == nil && one.figures.starved() < hardlyStarved {
		p.prefill = runspec.PrefillFull
		one, err = p.run(ctx, 0)
	}
	for range doublings {
		if err != nil || one.steady {
			break
		}
		p.steps += p.steps - p.request.Conditions.lossStep()
		one, err = p.run(ctx, 0)
	}
	return one.figures, one.steady, err
}

// outcome is one simulation.
type outcome struct {
	figures figures
	steady  bool
}

func (p *play) run(ctx context.Context, seed int) (outcome, error) {
	setup := p.request.setup(p.setting)
	setup = seeded(setup, seed)
	setup.Buffer.Prefill = p.prefill
	setup.Spec.Steps = p.steps + p.setting.Depth + 1 // a run that nears its end launches less
	result, err := p.simulate(ctx, setup, sim.Options{MaxSteps: p.steps})
	if err != nil {
		return outcome{}, err
	}
	if err := ctx.Err(); err != nil {
		return outcome{}, err
	}
	steps := done(result.Input.Records)
	var before []steprecord.StepRecord
	if lost := p.request.Conditions.lossStep(); lost > 0 {
		cut := min(lost, len(steps))
		before, steps = steps[:cut], steps[cut:]
		steps = append([]steprecord.StepRecord{{}}, steps...) // the rule leaves the first one out
	}
	from, steady := steadyFrom(steps, p.setting.Depth)
	f := figuresOf(steps[from:], result)
	if len(before) > 0 {
		fromBefore, _ := steadyFrom(before, p.setting.Depth)
		f.beforeSec = figuresOf(before[fromBefore:], result).stepSec
	}
	return outcome{f, steady}, nil
}

// seeded is a setup of another chance. Recorded games stay what they are; those beyond the record are drawn otherwise.
func seeded(s sim.Setup, seed int) sim.Setup {
	s.Seed += int64(seed)
	if r := s.Workload.Recorded; r != nil && r.Games != nil {
		games := *r.Games
		games.Seed += uint64(seed)
		s.Workload.Recorded = &sim.RecordedGames{File: r.File, Games: &games}
	}
	return s
}

// prefillSec is how long the run waits before its first step, as its spec says.
func (p *play) prefillSec(ctx context.Context) (float64, error) {
	setup := p.request.setup(p.setting)
	setup.Spec.Steps = p.steps + p.setting.Depth + 1
	result, err := p.simulate(ctx, setup, sim.Options{MaxSteps: 1})
	if err != nil {
		return 0, err
	}
	for _, r := range result.Input.Records {
		if r.Step == 0 {
			return r.PrefillSec(), nil
		}
	}
	return 0, nil
}

// refusal is why the service would not take a setting, or why it could not run. A run that is there already may have a
// spec that would not be taken now; that is no fault of a setting.
func (r Request) refusal(s Setting) string {
	setup := r.setup(s)
	if err := spec.Validate(setup.Spec, settings.Reading{}).Err(); err != nil {
		if own := spec.Validate(r.Setup.Spec, settings.Reading{}).Err(); own == nil {
			return err.Error()
		}
	}
	if err := setup.Validate(); err != nil {
		return err.Error()
	}
	return ""
}

// setup is the request's setup with the values of a setting, under the conditions.
func (r Request) setup(s Setting) sim.Setup {
	setup := r.Setup
	setup.Fleet.Engines = s.Engines
	setup.Buffer.Depth = s.Depth
	setup.Buffer.GroupsPerStep = s.Groups
	if s.Samples != setup.Group.Samples {
		setup.Group.Samples = s.Samples
		setup.Group.MinSamples = min(setup.Group.MinSamples, s.Samples)
	}
	return r.Conditions.apply(setup)
}

// summarize makes a setting's figures from those of its seeds.
func (c *Cell) summarize(r Request, seeds []figures) {
	var total figures
	var stepSec []float64
	for _, f := range seeds {
		total = total.add(f)
		stepSec = append(stepSec, f.stepSec)
		c.StalenessMax = max(c.StalenessMax, f.stalenessMax)
	}
	n := float64(len(seeds))
	c.Step = stat.Mean(stepSec, 0.95)
	c.Steps = seeds[0].steps
	c.BeforeSec = total.beforeSec / n
	c.StarvedShare = total.starved()
	c.StalenessMean = share(total.staleness, total.groups)
	c.BusyShare, c.SlotShare = min(1, share(total.busySec, total.engineSec)), min(1, share(total.slotSec, total.engineSec))
	c.InputTPS, c.OutputTPS = share(total.input, total.windowSec), share(total.output, total.windowSec)
	c.TrainedTokens = share(total.trained, float64(total.steps))
	c.DroppedShare = share(total.dropped, total.dropped+total.left)
	c.EngineHours = float64(c.Engines) * c.Step.Mean / 3600
	if r.Price > 0 {
		c.StepCost = r.Price * c.EngineHours
		c.TokenCost = share(c.StepCost*1e6, c.TrainedTokens)
	}
}

// figures are sums over the steady steps of a simulation.
type figures struct {
	steps                int
	stepSec              float64 // mean
	beforeSec            float64
	wall, wait           float64
	groups, staleness    float64
	stalenessMax         int64
	windowSec, engineSec float64
	busySec, slotSec     float64
	input, output        float64 // tokens
	trained              float64 // tokens
	dropped, left        float64 // groups, of the whole simulation
}

func (f figures) starved() float64 { return share(f.wait, f.wall) }

func (f figures) add(o figures) figures {
	return figures{
		steps: f.steps + o.steps, beforeSec: f.beforeSec + o.beforeSec, wall: f.wall + o.wall, wait: f.wait + o.wait,
		groups: f.groups + o.groups, staleness: f.staleness + o.staleness,
		windowSec: f.windowSec + o.windowSec, engineSec: f.engineSec + o.engineSec,
		busySec: f.busySec + o.busySec, slotSec: f.slotSec + o.slotSec,
		input: f.input + o.input, output: f.output + o.output, trained: f.trained + o.trained,
		dropped: f.dropped + o.dropped, left: f.left + o.left,
	}
}

func figuresOf(steps []steprecord.StepRecord, result sim.Result) figures {
	var f figures
	for _, s := range steps {
		v := s.Service
		f.steps++
		f.wall += s.StepSec()
		f.wait += s.StepPhases()[steprecord.PhaseWait]
		n := float64(len(v.Groups))
		f.groups += n
		f.staleness += n * v.StalenessMean
		f.stalenessMax = max(f.stalenessMax, v.StalenessMax)
		f.windowSec += v.Fleet.WindowSec
		f.engineSec += v.Fleet.WindowSec * v.Fleet.Engines
		f.busySec += v.Fleet.WindowSec * v.Fleet.Engines * v.Fleet.BusyShare
		f.slotSec += v.Fleet.WindowSec * v.Fleet.Engines * v.Fleet.SlotShare
		f.input += v.Fleet.WindowSec * v.Fleet.InputTPS
		f.output += v.Fleet.WindowSec * v.Fleet.OutputTPS
		for _, g := range v.Groups {
			f.trained += float64(g.Usage.InputTokens + g.Usage.OutputTokens)
		}
	}
	f.stepSec = share(f.wall, float64(f.steps))
	for _, d := range result.Input.Departures {
		if d.Code == steprecord.Trained {
			f.left += float64(d.Groups)
		} else {
			f.dropped += float64(d.Groups)
		}
	}
	return f
}

// share is a ratio, or 0 of nothing.
func share(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return part / whole
}
