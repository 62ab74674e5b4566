package enginebench

import (
	"slices"
	"time"

	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// Config says what is measured, and on what. Start from DefaultConfig.
type Config struct {
	Counts []int // of engines; the first is what scaling is compared with

	URLs  []string // engines to measure; none: simulated ones
	Model string   // what real engines are asked for; empty: the first model that they list
	Speed float64  // of simulated engines: their times are divided by it

	Concurrency int              // requests in flight per engine; 0: as many as this machine can serve
	Window      time.Duration    // measured per count and pass
	Rules       runspec.Dispatch // of the dispatcher, as in a run spec

	Samples       int // games of a group
	Years         int // of a game
	Groups        int // in play at least
	GroupsPerStep int
	TrainStep     time.Duration // of the modelled trainer, divided by Speed like the engines' times

	// Say, if set, is told what is being done.
	Say func(format string, args ...any)
}

// DefaultConfig is the reference workload: groups of 6 games of 3 years, 8 groups a step, two steps' worth of them
// in play.
func DefaultConfig() Config {
	return Config{
		Counts: []int{1, 2, 4, 8}, Speed: 1, Window: 15 * time.Second,
		Samples: 6, Years: 3, Groups: 16, GroupsPerStep: 8, TrainStep: 10 * time.Second,
	}
}

// UpTo is 1, 2, 4, ... and n.
func UpTo(n int) []int {
	var counts []int
	for c := 1; c < n; c *= 2 {
		counts = append(counts, c)
	}
	return append(counts, n)
}

// Validate reports everything that is wrong with c.
func (c Config) Validate() error {
	var faults settings.Checks
	require := faults.Require
	require(len(c.Counts) > 0, "counts: want at least one number of engines")
	for i, n := range c.Counts {
		require(n >= 1, "counts: %d is no number of engines", n)
		require(!slices.Contains(c.Counts[:i], n), "counts: %d is listed twice", n)
		require(len(c.URLs) == 0 || n <= len(c.URLs), "counts: %d, but only %d engines are named", n, len(c.URLs))
	}
	require(c.Speed > 0, "speed: %g is not positive", c.Speed)
	require(len(c.URLs) == 0 || c.Speed == 1, "speed: real engines run at speed 1")
	require(c.Concurrency >= 0, "concurrency: %d is negative", c.Concurrency)
	require(c.Window > 0, "seconds: %v is not positive", c.Window)
	require(c.Samples >= 1 && c.Groups >= 1 && c.GroupsPerStep >= 1, "samples, groups and groups per step: "+
		"want at least 1")
	require(c.Years >= 1, "years: %d is less than 1", c.Years)
	require(c.TrainStep >= 0, "train: %v is negative", c.TrainStep)
	return faults.Err()
}

func (c Config) say(format string, args ...any) {
	if c.Say != nil {
		c.Say(format, args...)
	}
}

// inPlay is how many groups are played at a time, so that a request always waits for every slot that becomes free.
func (c Config) inPlay(engines int) int {
	return max(c.Groups, 3+2*engines*c.Concurrency/perGroup)
}
