package sim

import (
	"errors"
	"fmt"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/simulate/sim/workload"
)

// Games is where the games of a setup come from. Whoever simulates a setup several times gives them to each as its
// Options' Games, so that games among bots are played once.
func Games(s Setup, environment func(runspec.Environment) (episode.Environment, error)) (workload.Games, error) {
	w := &s.Workload
	switch {
	case w.Distribution != nil:
		return workload.NewDistributedGames(*w.Distribution, uint64(s.Seed)), nil
	case w.Recorded != nil && w.Recorded.Games != nil:
		games := *w.Recorded.Games
		games.Seed = uint64(s.Seed) // games beyond the recorded ones are drawn
		return &games, nil
	case w.Recorded != nil:
		return nil, fmt.Errorf("workload.recorded: the record %s was not read", w.Recorded.File)
	case w.Bots != nil && environment != nil:
		env, err := environment(s.Environment)
		if err != nil {
			return nil, fmt.Errorf("workload.bots: %w", err)
		}
		return workload.NewBotGames(env, s.Spec, w.Bots.Groups, w.Bots.Answers == DrawnAnswers), nil
	case w.Bots != nil:
		return nil, fmt.Errorf("workload.bots: nobody knows environments of kind %q here", s.Environment.Kind)
	}
	return nil, errors.New("workload: says nothing of where games come from: distribution, recorded or bots")
}
