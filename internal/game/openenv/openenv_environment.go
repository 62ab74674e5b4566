// Package openenv plays environments that run elsewhere, behind OpenEnv's WebSocket (openenv 0.10, core/env_server):
// any program in any language that answers reset and step. A game's state is its seed and its actions. After a broken
// socket or a dead worker a new session is reset with the same seed and the actions are played again; a game that then
// comes to something else is no game of this run. Start reading at Config, then game.Act.
package openenv

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/game/prompting"
	"github.com/millrace/millrace/internal/game/specurl"
)

// Kind is the name of this environment in a run spec.
const Kind = "openenv"

// Config says where the environment is, and how its observations become prompts and answers its actions.
type Config struct {
	// URLs are the servers, http:// or ws://. A session stays where it began.
	URLs []string `json:"urls"`
	// Reset is sent with each reset, beside the seed.
	Reset map[string]any `json:"reset"`
	// Keys say how an observation is asked; {observation} is the whole as JSON. In a chat the conversation so far goes
	// before it.
	prompting.Keys
	// Choices is an observation's field with the answers that are possible, of which the engine is held to one.
	Choices string `json:"choices"`
	// Extract is a regular expression whose last match, or its first group, is the answer in a completion.
	Extract string `json:"extract"`
	// Action is what is sent with a step. A text "{answer}" in it becomes the answer, or with Choices the value that was
	// chosen, number or text.
	Action map[string]any `json:"action"`
	// InvalidReward is what an answer is worth that the server refuses as an action. It ends the game.
	InvalidReward float64 `json:"invalid_reward"`
	MaxTurns      int     `json:"max_turns"` // after which a game is cut off

	extract *regexp.Regexp
}

// DefaultConfig is the configuration of a spec that says nothing.
func DefaultConfig() Config {
	return Config{URLs: []string{}, Reset: map[string]any{},
		Keys:   prompting.Keys{Template: "{observation}", Stop: []string{}},
		Action: map[string]any{"message": answer}, MaxTurns: 64}
}

// answer is what becomes a completion's answer in an action.
const answer = "{answer}"

// Validate reports everything that is wrong with the configuration.
func (c *Config) Validate() (err error) {
	faults := c.Faults()
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if len(c.URLs) == 0 {
		fault("urls: is missing: the environment's servers, such as [http://10.0.0.7:8000]")
	}
	for _, text := range c.URLs {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || !strings.Contains(" http https ws wss ", " "+u.Scheme+" ") {
			fault("urls: %q is no address such as http://10.0.0.7:8000", text)
		}
	}
	if c.Choices != "" && c.Constraint != "" {
		fault("constraint: the choices of %s are one already", c.Choices)
	}
	if c.extract, err = regexp.Compile(c.Extract); err != nil {
		fault("extract: %w", err)
	}
	if text, _ := json.Marshal(c.Action); !bytes.Contains(text, []byte(`"`+answer+`"`)) {
		fault("action: %s holds no %q for what was answered", text, answer)
	}
	if c.MaxTurns < 1 || c.MaxTurns > 1000 {
		fault("max_turns: %d is not within 1 and 1000", c.MaxTurns)
	}
	return errors.Join(faults...)
}

// Env makes games of one configuration.
type Env struct {
	cfg  Config
	dial dialer
}

// FromOptions makes an Env from the options of a run spec. No server is asked: only workers need to reach them.
func FromOptions(options json.RawMessage) (*Env, error) {
	cfg := DefaultConfig()
	cfg.Action = nil // given ones are no additions
	if err := episode.ReadOptions(options, &cfg); err != nil {
		return nil, fmt.Errorf("openenv: %w (docs/spec.md has the options)", err)
	}
	if cfg.Action == nil {
		cfg.Action = DefaultConfig().Action
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	e := &Env{cfg: cfg}
	return e, e.Reach(nil)
}

// Reach has servers reached as the service's configuration says; it is called before any game begins.
func (e *Env) Reach(conns specurl.Connections) (err error) {
	e.dial, err = newDialer(e.cfg.URLs, e.cfg.Reset, conns)
	return err
}

// Scenario is a seed: what a reset with it begins is the server's to know.
func (e *Env) Scenario(seed int64) ([]byte, error) {
	return json.Marshal(played{Seed: seed & (1<<53 - 1)}) // as exact as JSON numbers are everywhere
}

// Start begins a game: all games of a group are reset with the same seed.
func (e *Env) Start(scenario []byte, _ int64, _ int) (episode.Game, error) {
	g, err := e.game(scenario)
	if err != nil {
		return nil, err
	}
	if err := g.begin(); err != nil {
		_ = g.Close() // the failure is begin's
		return nil, err
	}
	return g, nil
}

// Resume continues a game. Its session is opened anew when it next acts.
func (e *Env) Resume(checkpoint []byte) (episode.Game, error) { return e.game(checkpoint) }

func (e *Env) game(saved []byte) (*game, error) {
	g := &game{env: e}
	if err := json.Unmarshal(saved, &g.played); err != nil {
		return nil, fmt.Errorf("openenv: read game: %w", err)
	}
	return g, nil
}
