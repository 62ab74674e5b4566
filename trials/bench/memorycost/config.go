package memorycost

import (
	"errors"
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/trials/bench/benchservice"
	"github.com/millrace/millrace/trials/stack"
)

// Config says what is measured, and with what. Start from DefaultConfig.
type Config struct {
	stack.Programs
	Dir string // databases and logs are written below it

	Games   []int // in play at a time, each number on a service of its own
	Claims  []int // that wait at a time, on the same services
	Phases  int   // of a game; it is looked at in its first and in its last
	Samples int   // games of a group

	Say func(format string, args ...any) // if set, is told what is being done
}

// DefaultConfig has a game of eight phases, whose trajectories are those of docs/benchmarks.md.
func DefaultConfig() Config {
	return Config{Games: []int{204, 1002}, Claims: []int{500, 2000}, Phases: 8, Samples: 6}
}

// Validate reports everything that is wrong with c.
func (c Config) Validate() error {
	var errs []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	if err := benchservice.CheckPhases(c.Phases); err != nil {
		errs = append(errs, err)
	}
	require(c.Samples >= 1 && c.Samples <= runspec.MaxEpisodes, "samples: %d is not within 1 and %d", c.Samples,
		runspec.MaxEpisodes)
	for name, all := range map[string][]int{"games": c.Games, "claims": c.Claims} {
		require(len(all) >= 2 && all[0] >= 1 && slices.IsSorted(all) && len(slices.Compact(slices.Clone(all))) == len(all),
			"%s: %v are not two or more numbers that grow, from which a slope is made", name, all)
	}
	require(len(c.Games) == len(c.Claims), "games and claims: %d and %d numbers; want as many of both", len(c.Games),
		len(c.Claims))
	for _, n := range c.Games {
		require(c.Samples < 1 || n%c.Samples == 0, "games: %d is no multiple of the %d games of a group", n, c.Samples)
		require(c.Samples < 1 || n/c.Samples <= runspec.MaxOutstanding, "games: %d are %d groups, and %d may be outstanding",
			n, n/max(1, c.Samples), runspec.MaxOutstanding)
	}
	return errors.Join(errs...)
}

func (c Config) say(format string, args ...any) {
	if c.Say != nil {
		c.Say(format, args...)
	}
}
