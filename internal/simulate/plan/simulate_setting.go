package plan

import (
	"context"

	"github.com/millrace/millrace/internal/kit/settings"
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
