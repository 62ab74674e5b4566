package worker

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/diplomacyenv"
	"github.com/millrace/millrace/internal/episode"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/tictactoe"
)

// builders make an environment of each kind from its options. A new kind is a line here.
var builders = map[string]func(json.RawMessage) (episode.Environment, error){
	"diplomacy":    func(o json.RawMessage) (episode.Environment, error) { return diplomacyenv.FromOptions(o) },
	tictactoe.Kind: func(o json.RawMessage) (episode.Environment, error) { return tictactoe.FromOptions(o) },
}

// ValidateOptions checks the options of each kind of environment, for reading run specs.
func ValidateOptions() map[string]func(json.RawMessage) error {
	validators := map[string]func(json.RawMessage) error{}
	for kind, build := range builders {
		validators[kind] = func(o json.RawMessage) error {
			_, err := build(o)
			return err
		}
	}
	return validators
}

// ReadSpec reads a run spec, strictly, and checks that the fixed policies which its environment names are among its
// own.
func ReadSpec(name string, data []byte) (rollout.Spec, error) {
	spec, err := config.ReadSpec(name, data, ValidateOptions())
	if err != nil {
		return spec, err
	}
	env, err := builders[spec.Environment.Kind](spec.Environment.Options)
	if err != nil {
		return spec, fmt.Errorf("%s: environment: %w", name, err)
	}
	opposed, ok := env.(episode.Opposed)
	if !ok {
		return spec, nil
	}
	for _, policy := range opposed.Policies() {
		if !slices.ContainsFunc(spec.Policies, func(p rollout.FixedPolicy) bool { return p.Name == policy }) {
			return spec, fmt.Errorf("%s: environment: opponent policy:%s is not among the run's policies; add {name: %s, path: ...} to policies, without path for the base model",
				name, policy, policy)
		}
	}
	return spec, nil
}

// Environments builds environments and keeps them: they are immutable, and building the map of a board takes longer
// than a phase of a game.
func Environments() activities.Environments {
	var kept syncMap[string, episode.Environment]
	return func(e rollout.Environment) (episode.Environment, error) {
		key := e.Kind + " " + string(e.Options)
		if env, ok := kept.load(key); ok {
			return env, nil
		}
		build, ok := builders[e.Kind]
		if !ok {
			return nil, fmt.Errorf("no environment of kind %q; there are %s", e.Kind, strings.Join(slices.Sorted(maps.Keys(builders)), ", "))
		}
		env, err := build(e.Options)
		if err != nil {
			return nil, fmt.Errorf("environment %s: %w", e.Kind, err)
		}
		return kept.loadOrStore(key, env), nil
	}
}
