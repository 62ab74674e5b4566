// Package promptset is an environment of single-turn tasks: each group has a row of a dataset, each game one prompt
// and one completion, and a verifier says what that is worth. It needs no program beside a file, of JSON lines or of
// Parquet. Start reading at Config, then game.Act.
package promptset

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/game/prompting"
	"github.com/millrace/millrace/internal/game/specurl"
	"github.com/millrace/millrace/internal/rollout"
)

// Kind is the name of this environment in a run spec.
const Kind = "prompts"

// agent is the learner who answers.
const agent = "solver"

// Config says what is asked, and what answers are worth.
type Config struct {
	// Dataset is a file of rows, as workers see it: see CheckDataset.
	Dataset string `json:"dataset"`
	// HeldOut is such a file, too, of rows that the run is not trained on: what evaluations ask.
	HeldOut string `json:"held_out,omitempty"`
	// Keys say how a row is asked; its template is "{prompt}" if there is none. With chat, and without a template, rows
	// may have whole conversations as "messages".
	prompting.Keys
	Order
	Verifier Verifier `json:"verifier"`
}

// DefaultConfig is the configuration of a spec that says nothing.
func DefaultConfig() Config {
	var c Config
	c.complete()
	return c
}

func (c *Config) complete() {
	if c.Template == "" && !c.Chat {
		c.Template = "{prompt}"
	}
	if c.Stop == nil {
		c.Stop = []string{}
	}
	c.Order.Complete()
	c.Verifier.complete()
}

// Validate reports everything that is wrong with a completed configuration.
func (c *Config) Validate() error {
	faults := c.Faults()
	if err := CheckDataset("dataset", c.Dataset); err != nil {
		faults = append(faults, err)
	}
	if c.HeldOut != "" {
		if err := CheckDataset("held_out", c.HeldOut); err != nil {
			faults = append(faults, err)
		}
	}
	if c.HeldOut != "" && filepath.Clean(c.HeldOut) == filepath.Clean(c.Dataset) {
		faults = append(faults, errors.New("held_out: is the dataset, which the run is trained on"))
	}
	if err := c.Verifier.validate(); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// Env makes games of one configuration.
type Env struct {
	cfg  Config
	rows *Dataset
	hook *specurl.Server // that judges; nil: none does, or Reach was not called
}

var (
	_ episode.Ordered = (*Env)(nil)
	_ episode.Opposed = (*Env)(nil)
)

// FromOptions makes an Env from the options of a run spec. It does not open the dataset: only workers need to see it.
func FromOptions(options json.RawMessage) (*Env, error) {
	var cfg Config
	if err := episode.ReadOptions(options, &cfg); err != nil {
		return nil, fmt.Errorf("prompts: %w (docs/spec.md has the options)", err)
	}
	cfg.complete()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Env{cfg: cfg, rows: Rows(cfg.Dataset, cfg.Order)}, nil
}

// Reach has the webhook that judges reached as the service's configuration says, if there is one; it is called before
// any game begins.
func (e *Env) Reach(conns specurl.Connections) (err error) {
	if e.cfg.Verifier.Kind == webhook {
		e.hook, err = specurl.New(conns, e.cfg.Verifier.URL)
	}
	return err
}

// HeldOut is options by which the rows that were held out are the dataset.
func HeldOut(options json.RawMessage) (json.RawMessage, error) {
	env, err := FromOptions(options)
	if err != nil {
		return nil, err
	}
	if env.cfg.HeldOut == "" {
		return nil, errors.New("held_out: the run has no rows that it is not trained on; name a file of such rows in " +
			"environment.held_out")
	}
	env.cfg.Dataset, env.cfg.HeldOut = env.cfg.HeldOut, ""
	return json.Marshal(env.cfg)
}

// Policies is the fixed policy that judges, if one does.
func (e *Env) Policies() []string {
	if e.cfg.Verifier.Kind != judge {
		return nil
	}
	return []string{e.cfg.Verifier.Policy}
}

// ScenarioOf is the row of a run's group.
func (e *Env) ScenarioOf(group rollout.GroupSeq) ([]byte, error) { return e.scenario(e.rows.Of(group)) }

// Scenario draws a row.
func (e *Env) Scenario(seed int64) ([]byte, error) {
	n, err := e.rows.count()
	if err != nil {
		return nil, err
	}
	return e.scenario(e.rows.row(int(shuffled(0, uint64(n), uint64(seed)))))
}

func (e *Env) scenario(row map[string]any, from string, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	t, err := e.cfg.task(row)
	if err != nil {
		return nil, fmt.Errorf("dataset: %s of %s: %w", from, e.cfg.Dataset, err)
	}
	t.From = from
	return json.Marshal(t)
}

// Start begins a game of a row.
func (e *Env) Start(scenario []byte, _ int64, _ int) (episode.Game, error) { return e.Resume(scenario) }

// Resume continues a game.
func (e *Env) Resume(checkpoint []byte) (episode.Game, error) {
	g := &game{cfg: &e.cfg, hook: e.hook}
	if err := json.Unmarshal(checkpoint, &g.played); err != nil {
		return nil, fmt.Errorf("prompts: read game: %w", err)
	}
	if g.Prompt == "" && len(g.Messages) == 0 {
		return nil, errors.New("prompts: a game without a prompt")
	}
	return g, nil
}
