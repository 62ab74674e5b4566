// Package external is an environment whose games are played by programs elsewhere: agents of any kind that speak to a
// model. A program leases a game and makes calls, which are the turns of the game; what it reports at the end is the
// reward. A call comes in through Mail, becomes a prompt, and is answered once the turn is in the game's journal.
// Start reading at Config, then game.Await.
package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
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
	// Dataset is a file with a JSON object a line, as workers see it; each group has a row of it. Without one, a group
	// has a seed alone.
	Dataset string `json:"dataset"`
	// Shuffle and Seed are as for kind: prompts.
	Shuffle *bool  `json:"shuffle"`
	Seed    uint64 `json:"seed"`
	// Lease is for how long a program may be silent before another one gets its game.
	Lease rollout.Duration `json:"lease"`
	// MaxCalls bounds the calls of an agent.
	MaxCalls int `json:"max_calls"`
}

// DefaultConfig is the configuration of a spec that says nothing.
func DefaultConfig() Config {
	return Config{Agents: []string{"agent"}, Shuffle: new(true), Lease: rollout.Duration(time.Minute), MaxCalls: 256}
}

var agentName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Validate reports everything that is wrong with the configuration.
func (c *Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if len(c.Agents) == 0 || len(c.Agents) > 64 {
		fault("agents: %d names; want 1 to 64", len(c.Agents))
	}
	for i, name := range c.Agents {
		if !agentName.MatchString(name) || slices.Contains(c.Agents[:i], name) {
			fault("agents: %q is no name of letters, digits, _ and -, or there twice", name)
		}
	}
	if err := promptset.CheckDataset(c.Dataset); c.Dataset != "" && err != nil {
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
	if cfg.Shuffle == nil {
		cfg.Shuffle = new(true)
	}
	return cfg, cfg.Validate()
}

// Env makes games of one configuration.
type Env struct {
	cfg  Config
	mail Mail
}

// Use has games played by what comes in by mail; it is called before any game begins.
func (e *Env) Use(mail Mail) { e.mail = mail }

// FromOptions makes an environment from the options of a run spec.
func FromOptions(options json.RawMessage) (episode.Environment, error) {
	cfg, err := ReadConfig(options)
	if err != nil {
		return nil, err
	}
	e := &Env{cfg: cfg}
	if cfg.Dataset == "" {
		return e, nil
	}
	return &ofRows{e, promptset.Rows(cfg.Dataset, *cfg.Shuffle, cfg.Seed)}, nil
}

// Scenario is what a program is told of a game: the same for all games of a group.
type Scenario struct {
	Seed int64          `json:"seed" doc:"The same for all games of a group"`
	Row  map[string]any `json:"row,omitempty" doc:"Of the dataset, if the run has one"`
}

// Scenario is a seed.
func (e *Env) Scenario(seed int64) ([]byte, error) {
	return json.Marshal(Scenario{Seed: seed & (1<<53 - 1)}) // as exact as JSON numbers are everywhere
}

// ofRows is an Env whose groups have rows.
type ofRows struct {
	*Env
	rows *promptset.Dataset
}

var _ episode.Ordered = (*ofRows)(nil)

// ScenarioOf is the row of a run's group.
func (e *ofRows) ScenarioOf(group rollout.GroupSeq) ([]byte, error) {
	row, _, err := e.rows.Of(group)
	if err != nil {
		return nil, err
	}
	return json.Marshal(Scenario{Seed: int64(group), Row: row})
}

// Start begins a game.
func (e *Env) Start(scenario []byte, _ int64, _ int) (episode.Game, error) {
	return e.game(&game{played: played{Scenario: scenario}})
}

// Resume continues a game.
func (e *Env) Resume(checkpoint []byte) (episode.Game, error) {
	g := &game{}
	if err := json.Unmarshal(checkpoint, &g.played); err != nil {
		return nil, fmt.Errorf("external: read game: %w", err)
	}
	return e.game(g)
}

func (e *Env) game(g *game) (episode.Game, error) {
	if e.mail == nil {
		return nil, errors.New("external: games of programs are played by workers alone")
	}
	g.cfg, g.mail = &e.cfg, e.mail
	if g.Calls == nil {
		g.Calls = map[string][]answered{}
	}
	return g, nil
}

// Mail is where programs put their calls, and find answers.
type Mail interface {
	// Look tells how a game stands, and offers it to programs. It is called again within LookEvery.
	Look(ctx context.Context, ref rollout.EpisodeRef, scenario []byte) (Standing, error)
	// Await returns when something may have changed since it was called, or after LookEvery.
	Await(ctx context.Context, ref rollout.EpisodeRef, look func() (more bool, err error)) error
	// Answer answers a call, notes how many calls of its agent its program has had answered, and with an Ending that the
	// game is over. It does nothing when another program has the game.
	Answer(ctx context.Context, ref rollout.EpisodeRef, lease string, call Call, place int, a Answer, over *Ending) error
}

// LookEvery is the longest time between two looks of a game, and of a call that waits: it says that its program lives.
const LookEvery = 2 * time.Second

// leastLease is longer, so that a program that waits for an answer keeps its game.
const leastLease = 3 * time.Second

// Standing is how a game stands in the mail.
type Standing struct {
	Now    int64          // of the mail's clock, in ms
	Lease  string         // of the program that has the game, or had it last
	Leased bool           // it has the game
	Places map[string]int // how many of each agent's calls it has had answered
	Calls  []Call         // that wait, the oldest first
	Over   *Ending
}

// Call is a call of a program.
type Call struct {
	Agent  string             `json:"agent"`
	Hash   string             `json:"hash"` // of what was asked
	Prompt string             `json:"prompt,omitempty"`
	Chat   []rollout.Message  `json:"messages,omitempty"`
	Tools  json.RawMessage    `json:"tools,omitempty"`
	Hold   rollout.Constraint `json:"constraint,omitzero"`
	Most   int                `json:"max_tokens,omitempty"`
	Stop   []string           `json:"stop,omitempty"`
	Policy string             `json:"policy,omitempty"` // that must answer; empty: the learner
	End    *Ending            `json:"end,omitempty"`    // the game is over: it is the last call
}

// ID names a call within its program's lease: one that is sent again is the same call.
func (c *Call) ID() string { return c.Agent + "/" + c.Hash }

// Ending is how a program ends its game.
type Ending struct {
	Rewards   map[string]float64 `json:"rewards,omitempty"`
	Truncated bool               `json:"truncated,omitempty"`
	Failed    string             `json:"failed,omitempty"` // why it failed; empty: it did not
	Hash      string             `json:"hash,omitempty"`   // of the call
}

// Answer is what a call is answered.
type Answer struct {
	Text   string `json:"text,omitempty"`
	Finish string `json:"finish,omitempty"`
	Prompt int    `json:"prompt,omitempty"` // tokens
	Tokens int    `json:"tokens,omitempty"`
	Fault  string `json:"fault,omitempty"` // why it is not answered: the program's fault
}
