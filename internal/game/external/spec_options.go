package external

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/game/promptset"
	"github.com/millrace/millrace/internal/rollout"
)

// Kind is the name of this environment in a run spec.
const Kind = "external"

// Config says who plays, and with what.
type Config struct {
	// Agents are the learners of a game, each with a trajectory of its own.
	Agents []string `json:"agents"`
	// Dataset is a file as for kind prompts; each group has a row of it. Without one, a group has a seed alone.
	Dataset string `json:"dataset"`
	promptset.Order
	// Lease is for how long a program may be silent before another one gets its game.
	Lease rollout.Duration `json:"lease"`
	// MaxCalls bounds the calls of an agent.
	MaxCalls int `json:"max_calls"`
}

// DefaultConfig is the configuration of a spec that says nothing.
func DefaultConfig() Config {
	return Config{Agents: []string{"agent"}, Order: promptset.Order{Shuffle: new(true)},
		Lease: rollout.Duration(time.Minute), MaxCalls: 256}
}

// Validate reports everything that is wrong with the configuration.
func (c *Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if len(c.Agents) == 0 || len(c.Agents) > 64 {
		fault("agents: %d names; want 1 to 64", len(c.Agents))
	}
	for i, name := range c.Agents {
		if !episode.IsAgentName(name) || slices.Contains(c.Agents[:i], name) {
			fault("agents: %q is no name of letters, digits, _ and -, or there twice", name)
		}
	}
	if err := promptset.CheckDataset("dataset", c.Dataset); c.Dataset != "" && err != nil {
		faults = append(faults, err)
	}
	if c.Lease.Std() < leastLease || c.Lease.Std() > time.Hour {
		fault("lease: %s is not within %s and 1h", c.Lease, leastLease)
	}
	if c.MaxCalls < 1 || c.MaxCalls > 10_000 {
		fault("max_calls: %d is not within 1 and 10000", c.MaxCalls)
	}
	return errors.Join(faults...)
}

// ReadConfig reads the options of a run spec.
func ReadConfig(options json.RawMessage) (Config, error) {
	cfg := DefaultConfig()
	if err := episode.ReadOptions(options, &cfg); err != nil {
		return cfg, fmt.Errorf("external: %w (docs/spec.md has the options)", err)
	}
	if cfg.Agents == nil {
		cfg.Agents = DefaultConfig().Agents
	}
	cfg.Complete()
	return cfg, cfg.Validate()
}
