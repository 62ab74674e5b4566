package saturation

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/trials/bench/benchservice"
	"github.com/millrace/millrace/trials/stack"
)

// Config says what is run. Start from DefaultConfig.
type Config struct {
	stack.Programs
	Dir string // logs are written below it

	Engines int
	Workers int
	Masters int // of the Redis Cluster; 1 is no Cluster
	Phases  int // of a game
	Samples int // games of a group
	Groups  int // of a step

	Depths []int         // steps' worth of groups in play, one level of load after the other
	Warm   time.Duration // after each change of the load
	For    time.Duration // that each level is measured

	InFlight int           // requests that a real engine would have in flight: for what the figures say of others
	Call     time.Duration // and how long each would take there

	Say func(format string, args ...any) // if set, is told what is being done
}

// DefaultConfig takes two minutes.
func DefaultConfig() Config {
	return Config{Engines: 64, Workers: 4, Masters: 3, Phases: 10, Samples: 8, Groups: 2, Depths: []int{2, 4, 8, 16, 32},
		Warm: 6 * time.Second, For: 10 * time.Second, InFlight: 256, Call: 1200 * time.Millisecond}
}

// perEngine is the turns per second that a real engine would make.
func (c Config) perEngine() float64 { return float64(c.InFlight) / c.Call.Seconds() }

// games is how many are in play at most with so many steps' worth of groups.
func (c Config) games(depth int) int { return depth * c.Groups * c.Samples }

// Validate reports everything that is wrong with c.
func (c Config) Validate() error {
	var errs []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	require(c.Engines >= 1, "engines: %d is less than 1", c.Engines)
	require(c.Workers >= 1, "workers: %d is less than 1", c.Workers)
	require(c.Masters == 1 || c.Masters >= 3 && c.Masters <= 100, "masters: %d: want 1, or 3 to 100 for a Cluster",
		c.Masters)
	require(benchservice.CheckPhases(c.Phases) == nil, "%v", benchservice.CheckPhases(c.Phases))
	require(c.Samples >= 1 && c.Samples <= runspec.MaxEpisodes, "samples: %d is not within 1 and %d", c.Samples,
		runspec.MaxEpisodes)
	require(c.Groups >= 1, "groups: %d is less than 1", c.Groups)
	require(len(c.Depths) > 0, "depths: want at least one")
	for i, d := range c.Depths {
		require(i == 0 || d > c.Depths[i-1], "depths: %d does not raise the load", d)
	}
	require(c.Warm >= 0 && c.For > 0, "for: %v is not above 0", c.For)
	require(c.InFlight >= 1 && c.Call > 0, "in-flight and call: want more than 0")
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for _, d := range c.Depths { // later levels are as much of a run as the first
		err := c.checkRun(d)
		require(err == nil, "depths: %d steps of %d groups of %d games are no run: %v", d, c.Groups, c.Samples, err)
	}
	return errors.Join(errs...)
}

// checkRun reports why there can be no run at a level of load.
func (c Config) checkRun(depth int) error {
	run, s := c.run(depth), spec.Default()
	s.Name, s.Model, s.Steps, s.Environment = run.Name, run.Model, run.Steps, run.Environment
	s.Group.Samples, s.Group.MinSamples = run.Group.Samples, run.Group.MinSamples
	s.Buffer.Depth, s.Buffer.GroupsPerStep = run.Buffer.Depth, run.Buffer.GroupsPerStep
	s.Buffer.MaxStaleness, s.Buffer.OnStale = run.Buffer.MaxStaleness, run.Buffer.OnStale
	s.Adapters.PathPrefix = "/adapters" // it is not chosen yet
	return spec.Validate(s, settings.Reading{}).Err()
}

// run is a run that does not end, at one level of load.
func (c Config) run(depth int) runspec.Spec {
	options, _ := json.Marshal(map[string]int{"horizon_years": c.Phases / benchservice.PhasesPerYear}) // never fails
	return runspec.Spec{
		Name: runName, Model: benchservice.Model, Steps: 1_000_000, Seed: 1,
		Environment: runspec.Environment{Kind: "diplomacy", Options: options},
		Group:       runspec.GroupSpec{Samples: c.Samples, MinSamples: c.Samples},
		Buffer: runspec.BufferSpec{Depth: depth, GroupsPerStep: c.Groups,
			MaxStaleness: int64(c.Depths[len(c.Depths)-1]), // else fewer groups are launched than the depth allows
			OnStale:      runspec.DropStale, Prefill: runspec.PrefillBatch},
		Sampling: rollout.Sampling{Temperature: 1, TopP: 1, MaxTokens: 256},
		Adapters: runspec.AdapterSpec{Rank: 8, PathPrefix: c.Dir},
		Dispatch: runspec.Dispatch{Policy: runspec.LeastTokens},
		Timeouts: runspec.Timeouts{
			Completion: rollout.Duration(time.Minute), Episode: rollout.Duration(24 * time.Hour),
			Heartbeat: rollout.Duration(10 * time.Second),
		},
	}
}

func (c Config) say(format string, args ...any) {
	if c.Say != nil {
		c.Say(format, args...)
	}
}
