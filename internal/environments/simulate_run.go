package environments

import (
	"context"
	"fmt"
	"sync"

	"github.com/millrace/millrace/internal/sim"
	"github.com/millrace/millrace/internal/sim/workload"
)

// Simulator is sim.Run for setups of every environment. Games among bots are played once, however often setups that
// have the same ones are simulated.
func Simulator() func(context.Context, sim.Setup, sim.Options) (sim.Result, error) {
	var mu sync.Mutex
	kept := map[string]workload.Games{}
	build := Builder()
	return func(ctx context.Context, s sim.Setup, o sim.Options) (sim.Result, error) {
		o.Environment = build
		if o.Games == nil && s.Workload.Bots != nil {
			key := fmt.Sprint(s.Environment.Kind, string(s.Environment.Options), s.Seed, s.Group.Samples, s.Sampling,
				*s.Workload.Bots)
			mu.Lock()
			games, known := kept[key]
			var err error
			if !known {
				games, err = sim.Games(s, build)
			}
			if err == nil {
				kept[key], o.Games = games, games
			}
			mu.Unlock()
			if err != nil {
				return sim.Result{}, err
			}
		}
		return sim.Run(ctx, s, o)
	}
}
