package episode_test

import (
	"context"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/rollout"
)

type unkept struct{}

func (unkept) Save(context.Context, rollout.Checkpoint) error { return nil }

// BenchmarkPhase is what the player and the smallest environment cost per phase, with an engine that answers at once.
func BenchmarkPhase(b *testing.B) {
	env := board()
	start, err := env.Scenario(7)
	if err != nil {
		b.Fatal(err)
	}
	for name, watch := range map[string]*episode.Watch{"unwatched": nil, "watched": {}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			p := episode.Player{Environment: env, Policy: &engine{}, Journal: unkept{}, Beat: func(int, string) {},
				Now: time.Now, Watch: watch}
			phases := 0
			for phases < b.N {
				p.Policy = &engine{}
				ep, _, err := p.Play(b.Context(), plan(1), start, nil)
				if err != nil {
					b.Fatal(err)
				}
				phases += ep.Phases
			}
		})
	}
}
