// Package crashtest breaks the whole service, run as real processes on loopback, by a seeded schedule of faults. It
// checks that what was promised holds: every step has exactly its groups, no trajectory is trained on twice or lost,
// the same claim gives the same bytes, every turn was sampled by the version it names. It measures how long each part's
// death is felt.
//
// What was promised is docs/guarantees.md. The schedule and the checks are pure: fault_schedule.go and final_checks.go.
// Everything that is observed comes from outside the service: the trainer's journal, claims over HTTP, the buffer's
// account in Redis, and a recorder between the workers and the engines. Start reading at Run.
package crashtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/trials/stack"
)

// Config says what to run and for how long.
type Config struct {
	stack.Programs
	Dir string // everything is written below: databases, logs, adapters, journals

	Deck   Deck   // empty: Processes
	Layout Layout // of Redis; empty: Single
	Only   []Kind // of the deck; empty: all
	Seed   int64
	// Duration is how long a schedule is played, from the first batch on; the run in progress is then let to its end. It
	// takes longer where faults take longer than their slots, as on a machine that does other work.
	Duration time.Duration
	Every    time.Duration // one fault per slot
	// how long Temporal is unavailable once, besides what the schedule deals; 0: no such outage
	TemporalOutage time.Duration
	Run            RunConfig
	// Lose empties Redis once instead of all other faults, when a quarter of the run's steps are recorded. What was
	// granted and not recorded may then be formed again; what was trained on must still never be given again.
	Lose bool
	// Lives is how often each run's name is used. The first life is cut short: the run is deleted. Of three or
	// more, the last but one ends when the run, completed, has been kept for as long as the configuration says. 0:
	// once.
	Lives int
	// Patience multiplies the bounds within which the service must have done something, for a machine that does other work
	// meanwhile. 0: once.
	Patience int
	Log      io.Writer // what happens, a line each
}

// RunConfig sizes each run. Runs follow one another until the time is over.
type RunConfig struct {
	Steps, GroupsPerStep, Samples, Depth int
	Train                                time.Duration
	// Checkpoint is after how many steps the trainer saves its weights; killed, it goes back there. 0: its weights
	// survive it.
	Checkpoint int
	Shape      Shape // what is special about the run's groups and batches
}

// Default sizes: a run lasts about half a minute and always has requests in flight.
const (
	DefaultEvery = 3300 * time.Millisecond
	workers      = 2
	engines      = 3
)

// DefaultRun is what Run plays where the configuration says nothing.
var DefaultRun = RunConfig{Steps: 16, GroupsPerStep: 3, Samples: 3, Depth: 2,
	Train: 700 * time.Millisecond, Checkpoint: 3}

// longRun is how many steps a run has whose faults are followed one by one: most of them find it in its middle.
const longRun = 48

// Agents is how many trajectories one game of the environment, tic-tac-toe, makes.
const agents = 2

func (c *Config) fill() {
	if c.Deck == "" {
		c.Deck = Processes
	}
	if c.Layout == "" {
		c.Layout = Single
	}
	if c.Every <= 0 {
		c.Every = DefaultEvery
	}
	if c.Run == (RunConfig{}) {
		c.Run = DefaultRun
		if c.Deck == Names {
			c.Run.Steps = longRun
		}
	}
	if c.Deck == Names && c.Lives == 0 {
		c.Lives = 3
	}
	if c.Lose {
		c.Run.Checkpoint = 0 // an emptied Redis cannot give earlier steps again
	}
	if c.Log == nil {
		c.Log = io.Discard
	}
}

// kinds is what the schedule deals.
func (c *Config) kinds() []Kind {
	if len(c.Only) > 0 {
		return c.Only
	}
	return c.Deck.Kinds(c.Layout)
}

// patient is a bound, as often as the harness is patient.
func (c *Config) patient(bound time.Duration) time.Duration {
	return time.Duration(max(1, c.Patience)) * bound
}

func (c *Config) schedule() *Schedule {
	return NewSchedule(c.kinds(), c.Seed, c.Every, c.TemporalOutage, workers, engines)
}

// Deals reports whether the schedule has every one of these kinds.
func (c Config) Deals(kinds ...Kind) bool {
	c.fill()
	dealt := map[Kind]bool{}
	schedule := c.schedule()
	for f := schedule.Next(); f.At < c.Duration; f = schedule.Next() {
		dealt[f.Kind] = true
	}
	return !slices.ContainsFunc(kinds, func(k Kind) bool { return !dealt[k] })
}

// Summary is the outcome in one line of JSON.
type Summary struct {
	Seed         int64          `json:"seed"`
	Faults       int            `json:"faults"`
	ByKind       map[string]int `json:"by_kind"`
	Steps        int            `json:"steps"`
	Trajectories int            `json:"trajectories"`
	// trajectories that a step should have had, or that left the account
	Lost           int   `json:"lost"`
	Duplicated     int   `json:"duplicated"`      // trajectories in two steps, or twice in one
	Holes          int   `json:"holes"`           // steps not trained on, or not recorded
	WrongVersion   int   `json:"wrong_version"`   // turns whose version is not the adapter that answered
	WrongWeights   int   `json:"wrong_weights"`   // turns of other weights than were published, and names of two
	Stuck          int   `json:"stuck"`           // faults after which nothing went on within their bound
	RepeatedTokens int64 `json:"repeated_tokens"` // that engines generated for a turn already answered
	// Rollbacks are how often Redis was made to come back older while a run went on. Each was detected, repaired and
	// shown, or harmless: nothing was lost that a trainer had been told.
	Rollbacks         int     `json:"rollbacks"`
	RollbacksDetected int     `json:"rollbacks_detected"`
	RollbacksHarmless int     `json:"rollbacks_harmless"`
	Repairs           int     `json:"repairs"`        // of accounts, those after other faults included
	RecoveryP50       float64 `json:"recovery_p50_s"` // of all measured kills
	RecoveryP99       float64 `json:"recovery_p99_s"`
}

// Report is a summary, what it rests on, and everything that went against a promise.
type Report struct {
	Summary    Summary
	Recovery   []Recovery // by what was killed
	Claims     int        // claims repeated and compared
	Shares     int        // batches claimed in shares, put together and compared
	Rewound    int        // steps trained again because a trainer went back to its checkpoint
	Refused    int        // calls with the generation of a replaced trainer that were refused, the trainers' own included
	Records    int        // records sent again, equal or not, and answered as promised
	Ahead      int        // batches granted while Temporal was unavailable
	Unled      int        // turns answered while Temporal was unavailable
	Turns      int        // turns compared with what engines answered
	OutTokens  int64      // generated altogether
	Lost       int        // batches that were lost with a Redis that came back older, and claims of them refused
	Dropped    map[rollout.Code]int64
	Violations []string
}

// Run runs the service under faults and checks it. The error is about the harness; violations are in the report.
func Run(ctx context.Context, cfg Config) (Report, error) {
	cfg.fill()
	s, err := startService(ctx, cfg)
	if err != nil {
		return Report{}, fmt.Errorf("start the service: %w", err)
	}
	defer s.stop()

	began := time.Now()
	observing, stopObserving := context.WithCancel(ctx)
	defer stopObserving()
	watch := newWatch(s)
	go watch.observe(observing)
	go watch.question(observing)

	injector := newInjector(s, watch)
	injecting, stopInjecting := context.WithCancel(ctx)
	defer stopInjecting()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if cfg.Lose {
			injector.lose(injecting)
			return
		}
		injector.run(injecting, cfg.schedule(), cfg.Duration)
	}()

	report := Report{Dropped: map[rollout.Code]int64{}}
	report.Summary.Seed = cfg.Seed
	for i := 1; ; i++ {
		outcome, err := s.train(ctx, watch, injector, cfg.plan(i))
		if err != nil {
			stopInjecting()
			<-done
			return report, fmt.Errorf("run %d: %w", i, err)
		}
		report.take(outcome, check(outcome))
		s.say("run %d (%s): %d steps in %d lines, %d violations so far (%s)",
			i, outcome.plan.cfg.Shape, report.Summary.Steps, len(outcome.journal), len(report.Violations),
			time.Since(began).Round(time.Second))
		injector.checkScaling(ctx, int(cfg.Seed+int64(i))%(mostBought+1))
		if cfg.Lose || over(done) && outcome.plan.last() || len(report.Violations) > 0 {
			break
		}
	}
	stopInjecting()
	<-done
	injector.finishScaling(ctx)
	report.finish(injector, s.recorder, watch)
	return report, ctx.Err()
}

func over(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// take adds one run's findings.
func (r *Report) take(o outcome, f findings) {
	r.Summary.Steps += f.steps
	r.Summary.Trajectories += f.trajectories
	r.Summary.Lost += f.lost
	r.Summary.Duplicated += f.duplicated
	r.Summary.Holes += f.holes
	r.Summary.WrongVersion += f.wrongVersion
	r.Summary.WrongWeights += f.wrongWeights
	r.Turns += f.turns
	r.Claims += o.claims
	r.Shares += o.shares
	r.Records += o.resent
	r.Ahead += o.ahead
	r.Rewound += f.rewound
	r.Refused += f.refused + o.refused
	r.Lost += len(o.lostBatches)
	r.Summary.Repairs += o.repairs
	for code, n := range o.account.Drops {
		r.Dropped[code] += n
	}
	for _, v := range f.violations {
		r.Violations = append(r.Violations, fmt.Sprintf("%s: %s", o.plan.label(), v))
	}
}

func (r *Report) finish(in *injector, rec *recorder, w *watch) {
	r.Summary.ByKind = map[string]int{}
	for _, d := range in.done {
		r.Summary.Faults++
		r.Summary.ByKind[string(d.Kind)]++
	}
	r.Summary.RepeatedTokens, r.OutTokens = rec.repeated()
	r.Recovery = recoveries(in.done, w, rec)
	if in.service.cfg.Deck == Names {
		r.Recovery = recoveriesOfNames(in.done)
	}
	r.Unled = unled(in.done, rec)
	b := in.rollbacks
	r.Summary.Rollbacks, r.Summary.RollbacksDetected, r.Summary.RollbacksHarmless = b.injected, b.detected, b.harmless
	if v := b.violation(); v != "" {
		r.Violations = append(r.Violations, v)
	}
	r.Violations = append(r.Violations, in.violations...)
	r.Summary.Stuck = in.stuck
	for _, name := range rec.ambiguous() {
		r.Summary.WrongWeights++
		r.Violations = append(r.Violations, fmt.Sprintf("adapter %s answered with other weights at different times", name))
	}
	var all []float64
	for _, rv := range r.Recovery {
		if rv.kill() || in.service.cfg.Deck == Names {
			all = append(all, rv.Seconds...)
		}
	}
	r.Summary.RecoveryP50, r.Summary.RecoveryP99 = quantile(all, 0.5), quantile(all, 0.99)
}

// Err is nil when every promise was kept.
func (r *Report) Err() error {
	if len(r.Violations) == 0 {
		return nil
	}
	var errs []error
	for _, v := range r.Violations {
		errs = append(errs, errors.New(v))
	}
	return errors.Join(errs...)
}
