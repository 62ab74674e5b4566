package turncost

import (
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/trials/bench/benchservice"
	"github.com/millrace/millrace/trials/stack"
)

// Config says what is measured, and with what. Start from DefaultConfig.
type Config struct {
	stack.Programs
	// EmbeddedRedis is the address of a Redis inside of this process, used where there is no redis-server: what it costs
	// is not measured.
	EmbeddedRedis string
	Dir           string // databases and logs are written below it

	Phases  []int         // of a game; each is measured by itself
	Turns   int           // that are played of each length, at least; rounded up to whole groups
	Samples int           // games of a group
	After   time.Duration // that engines take for an answer
	Games   int           // that the worker plays at a time
	// Heartbeat is the run's timeouts.heartbeat: a game that lasts is heard of at 80 % of it, or 5 s before its end.
	Heartbeat time.Duration
	Waiting   int // claims that wait for a batch, in a measurement of their own; 0: none
	// OnDisk has Redis write its log, with appendfsync always, and Temporal its database; else both keep all in memory.
	OnDisk bool

	Say func(format string, args ...any) // if set, is told what is being done
}

// DefaultConfig is short games and long ones, as many turns of each.
func DefaultConfig() Config {
	return Config{Phases: []int{10, 200}, Turns: 8000, Samples: 6, Games: 1000, Heartbeat: 10 * time.Second}
}

// Validate reports everything that is wrong with c.
func (c Config) Validate() error {
	var errs []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	require(len(c.Phases) > 0, "phases: want at least one length of games")
	for _, n := range c.Phases {
		if err := benchservice.CheckPhases(n); err != nil {
			errs = append(errs, err)
		}
	}
	require(c.Turns >= 1, "turns: %d is less than 1", c.Turns)
	require(c.Samples >= 1 && c.Samples <= runspec.MaxEpisodes, "samples: %d is not within 1 and %d", c.Samples,
		runspec.MaxEpisodes)
	require(c.After >= 0, "after: %v is negative", c.After)
	require(c.Waiting >= 0, "waiting: %d is negative", c.Waiting)
	require(c.Games >= 1, "games: %d is less than 1", c.Games)
	require(c.Heartbeat >= time.Second, "heartbeat: %v is less than 1 s", c.Heartbeat)
	for _, n := range c.Phases {
		require(c.groups(n) <= runspec.MaxOutstanding, "turns: %d need %d groups of %d games of %d phases, and %d may be "+
			"outstanding: use more samples or fewer turns", c.Turns, c.groups(n), c.Samples, n, runspec.MaxOutstanding)
	}
	return errors.Join(errs...)
}

// groups is how many groups of games of so many phases have the turns.
func (c Config) groups(phases int) int {
	perGroup := max(1, c.Samples*phases*benchservice.Powers)
	return (c.Turns + perGroup - 1) / perGroup
}

func (c Config) say(format string, args ...any) {
	if c.Say != nil {
		c.Say(format, args...)
	}
}
