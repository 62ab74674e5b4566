package crashtest

import (
	"io"
	"slices"
	"time"

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
	outsiders    = 2 // programs, or environments, of a run that has them
)

// DefaultRun is what Run plays where the configuration says nothing.
var DefaultRun = RunConfig{Steps: 16, GroupsPerStep: 3, Samples: 3, Depth: 2,
	Train: 700 * time.Millisecond, Checkpoint: 3}

// longRun is how many steps a run has whose faults are followed one by one: most of them find it in its middle.
const longRun = 48

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
	if c.Run.Steps == 0 {
		shape := c.Run.Shape
		c.Run = DefaultRun
		c.Run.Shape = shape
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

// Kinds is what the schedule deals.
func (c *Config) Kinds() []Kind {
	if len(c.Only) > 0 {
		return c.Only
	}
	return append(c.Deck.Kinds(c.Layout), c.Run.Shape.kinds()...)
}

// patient is a bound, as often as the harness is patient.
func (c *Config) patient(bound time.Duration) time.Duration {
	return time.Duration(max(1, c.Patience)) * bound
}

func (c *Config) schedule() *Schedule {
	return NewSchedule(c.Kinds(), c.Seed, c.Every, c.TemporalOutage, workers, engines)
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
