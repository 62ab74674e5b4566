// Package external is an environment whose games are played by programs elsewhere: agents of any kind that speak to a
// model. A program leases a game and makes calls, which are the turns of the game; what it reports at the end is the
// reward. A call comes in through Mail, becomes a prompt, and is answered once the turn is in the game's journal.
// Start reading at Config, then game.Await.
package external

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/game/promptset"
	"github.com/millrace/millrace/internal/rollout"
)

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
	return &ofRows{e, promptset.Rows(cfg.Dataset, cfg.Order)}, nil
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
