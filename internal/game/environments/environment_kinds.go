// Package environments knows every kind of environment that a run can name: how it is built from its options, and how
// a saved game of it is shown. A new kind is a line in kinds.
package environments

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/millrace/millrace/internal/game/diplomacyenv"
	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/game/external"
	"github.com/millrace/millrace/internal/game/openenv"
	"github.com/millrace/millrace/internal/game/promptset"
	"github.com/millrace/millrace/internal/game/specurl"
	"github.com/millrace/millrace/internal/game/tictactoe"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// kind is one kind of environment.
type kind struct {
	build func(options json.RawMessage) (episode.Environment, error)
	// view writes a saved game for the eye; nil: as it was saved.
	view func(game []byte, name string) (any, error)
	// against is options by which an opponent plays all but the learner's seat; nil: games have no opponents.
	against func(options json.RawMessage, opponent, seat string) (json.RawMessage, error)
	// heldOut is options by which games are played that nobody trains on; nil: all games are new ones.
	heldOut func(options json.RawMessage) (json.RawMessage, error)
}

var kinds = map[string]kind{
	diplomacyenv.Kind: {
		build: func(o json.RawMessage) (episode.Environment, error) { return diplomacyenv.FromOptions(o) },
		view:  func(game []byte, name string) (any, error) { return diplomacyenv.SavedGame(game, name) },

		against: diplomacyenv.Against,
	},
	external.Kind:   {build: external.FromOptions},
	runspec.NoGames: {build: noGames},
	openenv.Kind: {
		build: func(o json.RawMessage) (episode.Environment, error) { return openenv.FromOptions(o) },
	},
	promptset.Kind: {
		build:   func(o json.RawMessage) (episode.Environment, error) { return promptset.FromOptions(o) },
		heldOut: promptset.HeldOut,
	},
	tictactoe.Kind: {
		build:   func(o json.RawMessage) (episode.Environment, error) { return tictactoe.FromOptions(o) },
		against: tictactoe.Against,
	},
}

// unplayed is the environment of a run without games.
type unplayed struct{ episode.Environment }

func noGames(options json.RawMessage) (episode.Environment, error) {
	if len(options) > 0 {
		return nil, fmt.Errorf("environment %s has no options: nothing is played", runspec.NoGames)
	}
	return unplayed{}, nil
}

// ValidateOptions checks the options of each kind of environment, for reading run specs.
func ValidateOptions() map[string]func(json.RawMessage) error {
	validators := map[string]func(json.RawMessage) error{}
	for name, kind := range kinds {
		validators[name] = func(o json.RawMessage) error {
			_, err := kind.build(anyOpponent(o))
			return err
		}
	}
	return validators
}

// anyOpponent has version 0 play where the league draws who does, so that the rest of the options can be judged.
func anyOpponent(options json.RawMessage) json.RawMessage {
	return runspec.Environment{Options: options}.Against(rollout.PlayedByPolicy + firstVersion).Options
}

var firstVersion = rollout.PolicyVersion(0).Player()

// EvaluationOpponent is whom an environment is told to have as opponent: "v3" is the fixed policy of that name.
func EvaluationOpponent(against string) string {
	if _, is := rollout.VersionOfPlayer(against); is {
		return rollout.PlayedByPolicy + against
	}
	return against
}

// Against is an environment to evaluate a policy in: opponent, a bot or "policy:NAME", plays every agent but the one in
// seat; an empty seat is what the environment has the policy learn. Where games have no opponents, both are empty.
func Against(e runspec.Environment, opponent, seat string) (runspec.Environment, error) {
	kind := kinds[e.Kind]
	if kind.against == nil {
		if opponent+seat != "" {
			return e, fmt.Errorf("games of kind %s have no opponents and no seats; leave against and seat out", e.Kind)
		}
		if kind.heldOut == nil {
			return e, nil
		}
		options, err := kind.heldOut(e.Options)
		return runspec.Environment{Kind: e.Kind, Options: options}, err
	}
	if opponent == "" {
		return e, fmt.Errorf("against: say whom: a bot, v3 for an earlier version, or policy:NAME, of the run's policies")
	}
	options, err := kind.against(anyOpponent(e.Options), opponent, seat)
	if err == nil {
		_, err = kind.build(options)
	}
	return runspec.Environment{Kind: e.Kind, Options: options}, err
}

// CheckOpponents checks that the fixed policies that a spec's environment names are among its own, and that it knows
// the league's bot, and whom evaluations are against.
func CheckOpponents(name string, spec runspec.Spec) error {
	build := kinds[spec.Environment.Kind].build
	env, err := build(anyOpponent(spec.Environment.Options))
	if err != nil {
		return fmt.Errorf("%s: environment: %w", name, err)
	}
	if spec.League.Bot != "" {
		if _, err := build(spec.Environment.Against(spec.League.Bot).Options); err != nil {
			return fmt.Errorf("%s: league.bot: %w", name, err)
		}
	}
	for _, whom := range spec.Evaluate.Opponents() {
		if _, err := Against(spec.Environment, EvaluationOpponent(whom), spec.Evaluate.Seat); err != nil {
			return fmt.Errorf("%s: evaluate: %w", name, err)
		}
	}
	opposed, ok := env.(episode.Opposed)
	if !ok {
		return nil
	}
	for _, policy := range opposed.Policies() {
		if policy == firstVersion && spec.Environment.HasLeague() {
			continue
		}
		if !slices.ContainsFunc(spec.Policies, func(p runspec.FixedPolicy) bool { return p.Name == policy }) {
			return fmt.Errorf("%s: environment: opponent policy:%s is not among the run's policies; "+
				"add {name: %s, path: ...} to policies, without path for the base model, or with url and model for one elsewhere",
				name, policy, policy)
		}
	}
	return nil
}

// Builder builds environments and keeps them: they are immutable, and building the map of a board takes longer than a
// phase of a game.
//
// What a spec names by URL is reached by conns; where they are nil it is no worker that builds, and verifiers are not
// asked. Programs elsewhere play by mail.
func Builder(conns specurl.Connections, mail external.Mail) func(runspec.Environment) (episode.Environment, error) {
	var kept sync.Map // by kind and options
	return func(e runspec.Environment) (episode.Environment, error) {
		e.Options = anyOpponent(e.Options) // a group's plan has its opponent
		key := e.Kind + " " + string(e.Options)
		if env, ok := kept.Load(key); ok {
			return env.(episode.Environment), nil
		}
		kind, ok := kinds[e.Kind]
		if !ok {
			known := strings.Join(slices.Sorted(maps.Keys(kinds)), ", ")
			return nil, fmt.Errorf("no environment of kind %q; there are %s", e.Kind, known)
		}
		env, err := kind.build(e.Options)
		if err != nil {
			return nil, fmt.Errorf("environment %s: %w", e.Kind, err)
		}
		if remote, ok := env.(interface {
			Reach(conns specurl.Connections) error
		}); ok && conns != nil {
			if err := remote.Reach(conns); err != nil {
				return nil, fmt.Errorf("environment %s: %w", e.Kind, err)
			}
		}
		if played, ok := env.(interface{ Use(external.Mail) }); ok {
			played.Use(mail)
		}
		first, _ := kept.LoadOrStore(key, env)
		return first.(episode.Environment), nil
	}
}

// View is a saved game as its environment writes it for the eye.
func View(kind string, game []byte, name string) (json.RawMessage, error) {
	view := kinds[kind].view
	if view == nil {
		return game, nil
	}
	shown, err := view(game, name)
	if err != nil {
		return nil, fmt.Errorf("game %s: %w", name, err)
	}
	return json.Marshal(shown)
}
