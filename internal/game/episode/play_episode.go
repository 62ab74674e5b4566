package episode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// Policy answers requests; in service it is the dispatcher over all engines.
type Policy interface {
	Complete(ctx context.Context, req rollout.Request) (rollout.Completion, error)
}

// Journal keeps the latest checkpoint of one episode, so that another process can go on with it.
type Journal interface {
	Save(ctx context.Context, c rollout.Checkpoint) error
}

// Plan is what one episode is played with.
type Plan struct {
	Ref     rollout.EpisodeRef
	Attempt int // 1 for the first; part of every request's id and seed, so that a repeated sample is a new sample
	Counted int // attempts of which the game may have been the cause that they ended, this one included
	Model   string
	Version rollout.PolicyVersion
	Player  string            // what the learner of that version is called where games are compared
	Fixed   map[string]string // models of fixed policies that engines serve, by the name that prompts use
	// Elsewhere is the fixed policies that no engine serves, by the same name.
	Elsewhere map[string]runspec.FixedPolicy
	Sampling  rollout.Sampling
	Timeouts  runspec.Timeouts
	Seed      int64

	warmUp bool // it is the warm-up of the group that is played
}

// Player plays episodes. Beat is called after each phase with its name.
type Player struct {
	Environment Environment
	Policy      Policy
	Journal     Journal
	Beat        func(phaseIndex int, phase string)
	Now         func() time.Time
	// Newest, if set, is asked before each phase which version of the learner plays it; without it the plan's does.
	Newest func(ctx context.Context) (Served, error)
	// Watch, if set, shows what the environment is doing, so that a game in which it hangs can be left behind. It
	// is of one game.
	Watch *Watch
}

// Served is a version of the learner, and the name under which engines serve it.
type Served struct {
	Model   string
	Version rollout.PolicyVersion
}

var errDeadline = errors.New("the episode's time is spent")

// Play plays one episode from its scenario, or from where an earlier attempt stopped when from is not nil.
// It returns the finished episode and the game's last checkpoint.
func (p *Player) Play(ctx context.Context, plan Plan, scenario []byte,
	from *rollout.Checkpoint) (rollout.Episode, []byte, error) {
	env := p.stage(plan)
	game, progress, err := p.open(plan, env, scenario, from)
	if err != nil {
		return rollout.Episode{}, nil, err
	}
	if c, ok := game.(io.Closer); ok {
		defer func() { _ = c.Close() }() // a session elsewhere
	}
	if err := p.phases(ctx, plan, env, game, &progress); err != nil {
		return rollout.Episode{}, nil, err
	}
	ep, err := finish(plan, env, game, progress.Episode)
	if err != nil {
		return rollout.Episode{}, nil, err
	}
	ep.FinishedAt = p.Now()
	if progress.Game == nil { // the scenario was already over
		progress.Game, err = checkpoint(env, game)
	}
	return ep, progress.Game, err
}

func (p *Player) open(plan Plan, env *stage, scenario []byte, from *rollout.Checkpoint) (game Game,
	progress rollout.Checkpoint, err error) {
	if from != nil {
		err = env.call("resume", func() (err error) { game, err = p.Environment.Resume(from.Game); return err })
		progress = *from
		progress.Episode.Attempts = plan.Attempt
	} else {
		err = env.call("start", func() (err error) {
			game, err = p.Environment.Start(scenario, plan.Seed, plan.Ref.Sample)
			return err
		})
		progress.Episode = rollout.Episode{Ref: plan.Ref, Attempts: plan.Attempt}
	}
	if err != nil {
		return nil, rollout.Checkpoint{}, fmt.Errorf("episode %s: %w", plan.Ref, err)
	}
	return game, progress, nil
}

func checkpoint(env *stage, game Game) (saved []byte, err error) {
	err = env.call("checkpoint", func() (err error) { saved, err = game.Checkpoint(); return err })
	return saved, err
}

// phases plays the game to its end.
func (p *Player) phases(ctx context.Context, plan Plan, env *stage, game Game, progress *rollout.Checkpoint) error {
	for {
		if err := p.await(ctx, plan, game, progress); err != nil {
			return fmt.Errorf("episode %s: %w", plan.Ref, err)
		}
		env.begin()
		var done bool
		var name string
		err := env.call("phase", func() error {
			if done = game.Done(); !done {
				name = game.Phase()
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("episode %s: %w", plan.Ref, err)
		}
		if done {
			return nil
		}
		if err := p.phase(ctx, plan, env, game, name, progress); err != nil {
			return fmt.Errorf("episode %s phase %s: %w", plan.Ref, name, err)
		}
		// What was played is saved and counts for the next attempt, too: there is nothing to try again.
		if left(plan, &progress.Episode) < 0 {
			return fmt.Errorf("episode %s: %w", plan.Ref, late(plan, &progress.Episode))
		}
	}
}

// await waits until a phase can be played, where that is for others to decide. What was played may have become void
// meanwhile.
func (p *Player) await(ctx context.Context, plan Plan, game Game, progress *rollout.Checkpoint) error {
	awaited, ok := game.(Awaited)
	if !ok {
		return nil
	}
	ep := &progress.Episode
	taken, err := awaited.Await(ctx, plan.Ref, plan.Attempt, left(plan, ep))
	ep.EnvSec += taken.Seconds()
	if err == nil && !game.Done() && left(plan, ep) < 0 {
		err = late(plan, ep)
	}
	if err != nil {
		return err
	}
	ep.Trajectories = slices.Clone(ep.Trajectories) // the old ones may be part of a progress that was saved
	for i := range ep.Trajectories {
		t := &ep.Trajectories[i]
		t.Turns = slices.Clip(t.Turns[:min(len(t.Turns), awaited.Turns(t.Agent))])
	}
	return nil
}

// left is what an episode has of its time.
func left(plan Plan, ep *rollout.Episode) time.Duration {
	return time.Duration((plan.Timeouts.Episode.Seconds() - ep.ModelSec - ep.EnvSec) * float64(time.Second))
}

func late(plan Plan, ep *rollout.Episode) error {
	return rollout.Fail(rollout.GameFault, rollout.CodeEpisodeDeadline, fmt.Errorf("%w: played %.1f s of at most %s "+
		"(timeouts.episode)", errDeadline, ep.ModelSec+ep.EnvSec, plan.Timeouts.Episode))
}

// phase asks all agents at once, applies their answers and saves the progress. A phase that has taken longer than
// it may is not saved.
func (p *Player) phase(ctx context.Context, plan Plan, env *stage, game Game, name string,
	progress *rollout.Checkpoint) error {
	var prompts []Prompt
	if err := env.call("prompts", func() (err error) { prompts, err = game.Prompts(); return err }); err != nil {
		return err
	}
	if p.Newest != nil {
		newest, err := p.Newest(ctx)
		if err != nil {
			return fmt.Errorf("newest version: %w", err)
		}
		plan.Model, plan.Version = newest.Model, newest.Version
	}
	awaited, _ := game.(Awaited)
	prompts, completions, err := p.ask(ctx, plan, env, name, progress.PhaseIndex, prompts, awaited)
	if err != nil {
		return err
	}
	if awaited != nil && len(prompts) == 0 { // nothing was played
		return nil
	}
	ep := &progress.Episode
	p.addCost(ep, plan, prompts, completions)

	var outcome Outcome
	if err := env.call("act", func() (err error) {
		outcome, err = game.Act(answers(prompts, completions))
		return err
	}); err != nil {
		return err
	}
	record(ep, plan, name, prompts, completions, outcome)
	count(ep, outcome.Counts)
	progress.PhaseIndex++
	if progress.Game, err = checkpoint(env, game); err != nil {
		return err
	}
	if err := env.over(env.atEngines, ""); err != nil {
		return err
	}
	ep.EnvSec += env.inside.Seconds()
	ep.Phases = progress.PhaseIndex
	progress.News = outcome.News
	if err := p.Journal.Save(ctx, *progress); err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	p.Beat(progress.PhaseIndex, name)
	return nil
}

// ask sends one request per prompt and waits for all; the first failure, or an answer for which the phase has no
// time, cancels the rest. It returns the prompts that are answered: an awaited game is told of the others.
func (p *Player) ask(ctx context.Context, plan Plan, env *stage, phase string, index int, prompts []Prompt,
	awaited Awaited) ([]Prompt, []rollout.Completion, error) {
	completions := make([]rollout.Completion, len(prompts))
	took := make([]time.Duration, len(prompts))
	unfit := make([]error, len(prompts))
	g, ctx := errgroup.WithContext(ctx)
	if awaited != nil {
		asking, answered := context.WithCancel(ctx)
		defer answered()
		go awaited.Asking(asking)
	}
	for i := range prompts {
		if name := prompts[i].Policy; name != "" && plan.Fixed[name] == "" && plan.Elsewhere[name].URL == "" {
			return nil, nil, rollout.Fail(rollout.Permanent, rollout.CodeNoPolicy,
				fmt.Errorf("%s is played by policy %q, which the run does not have", prompts[i].Agent, name))
		}
	}
	for i := range prompts {
		g.Go(func() error {
			began := p.Now()
			c, err := p.Policy.Complete(ctx, request(plan, phase, index, prompts[i]))
			if awaited != nil && refuses(rollout.CodeOf(err)) {
				unfit[i] = err
				return nil
			}
			if err != nil {
				return fmt.Errorf("%s: %w", asked(prompts[i]), err)
			}
			completions[i], took[i] = c, charged(c.Timing, p.Now().Sub(began))
			return env.over(took[i], fmt.Sprintf(" for %s", prompts[i].Agent))
		})
	}
	err := g.Wait()
	for _, d := range took {
		env.atEngines = max(env.atEngines, d)
	}
	if err != nil || awaited == nil {
		return prompts, completions, err
	}
	fit := 0
	for i, prompt := range prompts {
		awaited.Answered(prompt.Agent, completions[i], unfit[i])
		if unfit[i] == nil {
			prompts[fit], completions[fit] = prompt, completions[i]
			fit++
		}
	}
	return prompts[:fit], completions[:fit], nil
}

// refuses reports whether what was asked for is at fault, so that the program that asks shall hear of it.
func refuses(code rollout.Code) bool {
	return code == rollout.CodeBadRequest || code == rollout.CodeRefused || code == rollout.CodePolicyRefuses
}

// asked names who was asked.
func asked(p Prompt) string {
	if p.Policy == "" {
		return p.Agent
	}
	return p.Agent + ", played by " + rollout.PlayedByPolicy + p.Policy
}

// charged is what of a request's time counts for its phase: its execution, not its wait in the queue. What an
// earlier attempt was answered comes from memory at once, and was charged there.
func charged(t rollout.Timing, waited time.Duration) time.Duration {
	return min(time.Duration(t.ExecSec*float64(time.Second)), waited)
}
