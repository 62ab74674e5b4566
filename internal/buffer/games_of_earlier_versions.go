package buffer

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/millrace/millrace/internal/buffer/pack"
	"github.com/millrace/millrace/internal/rollout"
)

// Earlier versions kept games in the run's account, each checkpoint as a whole. A game that one of them has begun goes
// on from there; from its next phase on it is in its journal.

// savedByEarlierVersion is what one of them has saved of a game; nil and none: nothing.
func (s *Store) savedByEarlierVersion(ctx context.Context, ref rollout.EpisodeRef) (*rollout.Checkpoint,
	map[string]Answer, error) {
	r, err := s.evalGroup(ctx, savedScript, ref.GroupRef, ref.Sample)
	if err != nil {
		return nil, nil, fmt.Errorf("read what was saved: %w", err)
	}
	answers, err := earlierAnswers(ref, r.list(3))
	if err != nil || r.str(2) == "" {
		return nil, answers, err
	}
	cp, err := pack.Load([]byte(r.str(2)))
	if err != nil {
		return nil, nil, fmt.Errorf("checkpoint of %s: %w", ref, err)
	}
	return &cp, answers, nil
}

func earlierAnswers(ref rollout.EpisodeRef, found reply) (map[string]Answer, error) {
	answers := make(map[string]Answer, len(found)/2)
	for i := 0; i+1 < len(found); i += 2 {
		agent := found.str(i)
		text, err := pack.ReadBytes([]byte(found.str(i + 1)))
		if err != nil {
			return nil, fmt.Errorf("answer of %s in %s: %w", agent, ref, err)
		}
		var a struct {
			Key        string             `json:"key"`
			Completion rollout.Completion `json:"completion"`
		}
		if err := json.Unmarshal(text, &a); err != nil {
			return nil, fmt.Errorf("answer of %s in %s: %w", agent, ref, err)
		}
		answers[agent] = Answer(a)
	}
	return answers, nil
}
