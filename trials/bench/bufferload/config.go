package bufferload

import (
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/trials/bench/benchservice"
)

// Config says what is loaded, and with how much. Start from DefaultConfig.
type Config struct {
	Redis string // redis-server
	Dir   string // what it writes goes below
	// URL is of a Redis that runs: then it alone is loaded, under a prefix of its own that is deleted at the end.
	URL string

	Masters []int    // a case for each: 1 is one Redis, more are a Cluster of so many
	Logs    []string // the same: LogOff, LogEverySec or LogAlways

	Rate    float64       // turns per second that are asked for
	Phases  int           // of a game
	Phase   time.Duration // from one phase of a game to the next
	Samples int           // games of a group
	Groups  int           // of a step
	Runs    int           // among which the games are divided
	Workers int           // processes that the load acts as: each sends by itself what its games write
	Engines int           // that are observed and accounted for
	Idle    time.Duration // that it is watched before games are played
	Warm    time.Duration // before it is measured
	For     time.Duration // that it is measured
	Noted   time.Duration // that each command is noted, or as long as a game takes: its end has what no other part has

	// InFlight and Call are what an engine is taken to carry: requests at a time, and what each of them takes.
	InFlight int
	Call     time.Duration

	Say func(format string, args ...any) // if set, is told what is being done
}

// How Redis logs what is written to it.
const (
	LogOff      = "off"
	LogEverySec = "everysec"
	LogAlways   = "always"
)

// DefaultConfig is 64 engines' games: 256 requests in flight at each, 1.2 s for an answer.
func DefaultConfig() Config {
	c := Config{Masters: []int{1, 3}, Logs: []string{LogOff, LogEverySec}, Phases: 10, Phase: 500 * time.Millisecond,
		Samples: 8, Groups: 64, Runs: 1, Workers: 4, Engines: 64, Idle: 5 * time.Second,
		Warm: 5 * time.Second, For: 12 * time.Second, Noted: 3 * time.Second,
		InFlight: 256, Call: 1200 * time.Millisecond}
	c.Rate = c.RateOfEngines()
	return c
}

// RateOfEngines is the turns per second that all engines make together.
func (c Config) RateOfEngines() float64 { return float64(c.Engines) * c.perEngine() }

// perEngine is the turns per second that an engine is taken to make.
func (c Config) perEngine() float64 { return float64(c.InFlight) / c.Call.Seconds() }

// groupsInPlay is how many groups have to be in play for the rate, of each run.
func (c Config) groupsInPlay() int {
	perGroup := float64(c.Samples*benchservice.Powers) / c.Phase.Seconds()
	return max(1, int(c.Rate/perGroup/float64(c.Runs)+0.5))
}

// Validate reports everything that is wrong with c.
func (c Config) Validate() error {
	var errs []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	require(c.URL != "" || len(c.Masters) > 0, "masters: want at least one number")
	for _, n := range c.Masters {
		require(n == 1 || n >= 3 && n <= 100, "masters: %d: want 1, or 3 to 100 for a Cluster", n)
	}
	require(c.URL != "" || len(c.Logs) > 0, "log: want at least one way")
	for _, l := range c.Logs {
		require(l == LogOff || l == LogEverySec || l == LogAlways, "log: %q is none of off, everysec and always", l)
	}
	require(c.Rate > 0, "rate: %v turns per second is not above 0", c.Rate)
	require(benchservice.CheckPhases(c.Phases) == nil, "%v", benchservice.CheckPhases(c.Phases))
	require(c.Phase >= 50*time.Millisecond, "phase: %v is less than 50ms: answers would not come one by one", c.Phase)
	require(c.Samples >= 1 && c.Samples <= runspec.MaxEpisodes, "samples: %d is not within 1 and %d", c.Samples,
		runspec.MaxEpisodes)
	require(c.Groups >= 1, "groups: %d is less than 1", c.Groups)
	require(c.Runs >= 1, "runs: %d is less than 1", c.Runs)
	require(c.Workers >= 1, "workers: %d is less than 1", c.Workers)
	require(c.Engines >= 1, "engines: %d is less than 1", c.Engines)
	require(c.For > 0 && c.Warm >= 0 && c.Idle > 0 && c.Noted > 0, "for: %v is not above 0", c.For)
	require(c.InFlight >= 1, "in-flight: %d is less than 1", c.InFlight)
	require(c.Call > 0, "call: %v is not above 0", c.Call)
	if len(errs) == 0 {
		most := runspec.MaxOutstanding - c.Groups
		require(c.groupsInPlay() <= most, "rate: %.0f turns per second need %d groups in play in each of %d runs, and %d "+
			"may be: use more runs or samples, or a shorter phase", c.Rate, c.groupsInPlay(), c.Runs, most)
	}
	return errors.Join(errs...)
}

func (c Config) say(format string, args ...any) {
	if c.Say != nil {
		c.Say(format, args...)
	}
}
