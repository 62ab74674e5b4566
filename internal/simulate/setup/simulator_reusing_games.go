package setup

import (
	"context"
	"fmt"
	"sync"

	"github.com/millrace/millrace/internal/game/environments"
	"github.com/millrace/millrace/internal/simulate/sim"
	"github.com/millrace/millrace/internal/simulate/sim/workload"
)

// Simulator is sim.Run for setups of every environment. Games among bots are played once, and records read once,
// however often setups that have the same ones are simulated.
func Simulator() func(context.Context, sim.Setup, sim.Options) (sim.Result, error) {
	var mu sync.Mutex
	kept := map[string]workload.Games{}
	build := environments.Builder(nil, nil)
	keep := func(key string, get func() (workload.Games, error)) (workload.Games, error) {
		mu.Lock()
		defer mu.Unlock()
		if games, known := kept[key]; known {
			return games, nil
		}
		games, err := get()
		if err == nil {
			kept[key] = games
		}
		return games, err
	}
	return func(ctx context.Context, s sim.Setup, o sim.Options) (sim.Result, error) {
		o.Environment = build
		if recorded := s.Workload.Recorded; o.Games == nil && recorded != nil && recorded.Games == nil {
			games, err := keep("record "+recorded.File, func() (workload.Games, error) { return recordedGames(recorded.File) })
			if err != nil {
				return sim.Result{}, fmt.Errorf("workload.recorded.file: %w", err)
			}
			o.Games = games
		}
		if o.Games == nil && s.Workload.Bots != nil {
			key := fmt.Sprint(s.Environment.Kind, string(s.Environment.Options), s.Seed, s.Group.Samples, s.Sampling,
				*s.Workload.Bots)
			games, err := keep(key, func() (workload.Games, error) { return sim.Games(s, build) })
			if err != nil {
				return sim.Result{}, err
			}
			o.Games = games
		}
		return sim.Run(ctx, s, o)
	}
}
