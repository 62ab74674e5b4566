package diplomacyenv

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/game/diplomacy"
	"github.com/millrace/millrace/internal/game/diplomacyenv/bot"
	"github.com/millrace/millrace/internal/rollout"
)

// Kind is the name of this environment in a run spec.
const Kind = "diplomacy"

// Config says which games are played and how learners see them. Start from DefaultConfig: the zero Config is not valid.
type Config struct {
	// HorizonYears is after how many years, the first included, a game is cut.
	HorizonYears int `json:"horizon_years"`
	// Start is where games begin; nil is the start of the map.
	Start *diplomacy.Position `json:"start,omitempty"`
	// WarmupPhases is how many phases are played before the fork, drawn uniformly per scenario.
	WarmupPhases Range `json:"warmup_phases"`
	// WarmupPolicy is who plays them.
	WarmupPolicy WarmupPolicy `json:"warmup_policy"`
	// WarmupBot plays all powers in the warm-up if bots do.
	WarmupBot bot.Name `json:"warmup_bot"`
	// Train are the powers that learn; Opponents are who plays the others, DefaultOpponent unless listed: a bot, or
	// "policy:NAME", a fixed policy of the run.
	Train     Train               `json:"train"`
	Opponents map[string]bot.Name `json:"opponents,omitempty"`
	// Constraint is how answers are forced to be legal.
	Constraint ConstraintKind `json:"constraint"`
	Prompt     PromptConfig   `json:"prompt"`
	Reward     RewardConfig   `json:"reward"`
}

// DefaultOpponent plays a power that is neither trained nor listed among the opponents.
const DefaultOpponent = bot.Dumb

// WarmupPolicy is who plays the warm-up.
type WarmupPolicy string

// The warm-up policies.
const (
	// WarmupBots has WarmupBot play all powers. It takes no time, and the seed alone decides what comes of it.
	WarmupBots WarmupPolicy = "bots"
	// WarmupLearner has the model play the powers that learn, as it does after the fork, and the opponents theirs.
	// The model's turns are not trained on: only the position is kept.
	WarmupLearner WarmupPolicy = "learner"
)

// Range is a closed interval.
type Range struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// ConstraintKind is how a learner's answer is forced to be legal.
type ConstraintKind string

// The constraint kinds.
const (
	RegexConstraint   ConstraintKind = "regex"
	GrammarConstraint ConstraintKind = "grammar" // EBNF
	NoConstraint      ConstraintKind = "none"    // bad orders are dropped and counted
)

// Train is a set of powers, or all of them. In JSON it is "all" or a list of names.
type Train struct {
	All    bool
	Powers []string
}

// MarshalJSON writes "all" or the list.
func (t Train) MarshalJSON() ([]byte, error) {
	if t.All {
		return json.Marshal("all")
	}
	return json.Marshal(t.Powers)
}

// UnmarshalJSON reads "all" or a list.
func (t *Train) UnmarshalJSON(b []byte) error {
	var word string
	if json.Unmarshal(b, &word) == nil {
		if word != "all" {
			return fmt.Errorf(`train: %q is neither "all" nor a list of powers`, word)
		}
		*t = Train{All: true}
		return nil
	}
	*t = Train{}
	if err := json.Unmarshal(b, &t.Powers); err != nil {
		return errors.New(`train: want "all" or a list of powers`)
	}
	return nil
}

// DefaultConfig is three years of the standard game, all powers learning.
func DefaultConfig() Config {
	return Config{
		HorizonYears: 3,
		WarmupPolicy: WarmupBots,
		WarmupBot:    bot.Dumb,
		Train:        Train{All: true},
		Constraint:   RegexConstraint,
		Prompt:       PromptConfig{Neighbours: true},
		Reward:       defaultReward(),
	}
}

// maxYears is more than any game lasts, and far from where years and phases overflow.
const (
	maxYears      = 1000
	phasesPerYear = 5
)

// Validate reports everything that is wrong with the configuration on its own; New checks it against the map.
func (c Config) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.HorizonYears < 1 {
		fault("horizon_years: %d is less than 1", c.HorizonYears)
	} else if c.HorizonYears > maxYears {
		fault("horizon_years: %d is more than %d", c.HorizonYears, maxYears)
	}
	if w := c.WarmupPhases; w.Min < 0 || w.Max < w.Min {
		fault("warmup_phases: min %d and max %d: want 0 <= min <= max", w.Min, w.Max)
	} else if w.Max > phasesPerYear*maxYears {
		fault("warmup_phases.max: %d is more phases than %d years have", w.Max, maxYears)
	} else if w.Max > 0 && c.HorizonYears == 1 {
		fault("warmup_phases.max: %d, but horizon_years: 1 leaves no year for a warm-up", w.Max)
	}
	if c.WarmupPolicy != WarmupBots && c.WarmupPolicy != WarmupLearner {
		fault("warmup_policy: %q is neither %s nor %s", string(c.WarmupPolicy), WarmupBots, WarmupLearner)
	}
	if err := c.WarmupBot.Check(); err != nil {
		fault("warmup_bot: %w", err)
	}
	if !c.Train.All && len(c.Train.Powers) == 0 {
		fault(`train: want "all" or at least one power`)
	}
	for _, power := range slices.Sorted(maps.Keys(c.Opponents)) {
		if err := checkOpponent(c.Opponents[power]); err != nil {
			fault("opponents.%s: %w", power, err)
		}
		if c.Train.All || slices.Contains(c.Train.Powers, power) {
			fault("opponents.%s: the power is trained", power)
		}
	}
	switch c.Constraint {
	case RegexConstraint, GrammarConstraint, NoConstraint:
	default:
		fault("constraint: %q is none of regex, grammar, none", string(c.Constraint))
	}
	errs = append(errs, c.Prompt.faults()...)
	errs = append(errs, c.Reward.faults()...)
	return errors.Join(errs...)
}

// fixedPolicy is the name of the fixed policy that an opponent is, if it is one.
func fixedPolicy(opponent bot.Name) (name string, ok bool) {
	if name, ok = strings.CutPrefix(string(opponent), rollout.PlayedByPolicy); !ok {
		return "", false
	}
	return name, true
}

func checkOpponent(opponent bot.Name) error {
	name, fixed := fixedPolicy(opponent)
	switch {
	case fixed && name == "":
		return errors.New("policy: names no policy; want policy:NAME, with NAME among the run's policies")
	case fixed:
		return nil
	}
	return opponent.Check()
}

// faultsOn reports what is wrong with the configuration on map m.
func (c Config) faultsOn(m *diplomacy.Map) error {
	var errs []error
	seen := map[string]bool{}
	for i, power := range c.Train.Powers {
		if _, ok := m.PowerByName(power); !ok {
			errs = append(errs, fmt.Errorf("train[%d]: no power %q (there are %s)", i, power, strings.Join(m.Powers(), ", ")))
		}
		if seen[power] {
			errs = append(errs, fmt.Errorf("train[%d]: %s is listed twice", i, power))
		}
		seen[power] = true
	}
	for _, power := range slices.Sorted(maps.Keys(c.Opponents)) {
		if _, ok := m.PowerByName(power); !ok {
			errs = append(errs, fmt.Errorf("opponents.%s: no such power (there are %s)", power, strings.Join(m.Powers(), ", ")))
		}
	}
	if c.Start != nil {
		if s, err := diplomacy.NewState(m, *c.Start); err != nil {
			errs = append(errs, fmt.Errorf("start: %w", err))
		} else if s.Done() {
			errs = append(errs, errors.New("start: the game is over"))
		}
	}
	return errors.Join(errs...)
}
