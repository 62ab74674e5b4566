package buffer

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/millrace/millrace/internal/buffer/pack"
	"github.com/millrace/millrace/internal/rollout"
)

// Answer is one agent's answer in a phase that is not finished. It is good for the same request alone: the one
// with this key.
type Answer struct {
	Key        string             `json:"key"` // of the request, its prompt included; the caller's to make
	Completion rollout.Completion `json:"completion"`
}

// SaveAnswer keeps an agent's answer until its next one, or until the game is over, so that an attempt that takes
// over in the middle of a phase need not ask again. It is refused as Fenced when the group or the episode is over or a
// higher attempt has saved.
func (s *Store) SaveAnswer(ctx context.Context, ref rollout.EpisodeRef, attempt int, agent string, a Answer) error {
	text, err := json.Marshal(a)
	if err != nil {
		return rollout.Refuse(rollout.Invalid, "answer of %s in %s: %v", agent, ref, err)
	}
	packed, err := pack.Bytes(text)
	if err != nil {
		return rollout.Refuse(rollout.Invalid, "answer of %s in %s: %v", agent, ref, err)
	}
	r, err := s.evalEpisode(ctx, answerScript, ref, attempt, agent, packed)
	if err != nil {
		return fmt.Errorf("save answer: %w", err)
	}
	if !r.ok() {
		return episodeOver(ref, attempt, r)
	}
	return nil
}

// Answers is each agent's latest answer in an episode that is not over.
func (s *Store) Answers(ctx context.Context, ref rollout.EpisodeRef) (map[string]Answer, error) {
	r, err := s.evalGroup(ctx, answersScript, ref.GroupRef, ref.Sample)
	if err != nil {
		return nil, fmt.Errorf("read answers: %w", err)
	}
	found := r.list(1)
	answers := make(map[string]Answer, len(found)/2)
	for i := 0; i+1 < len(found); i += 2 {
		agent := found.str(i)
		text, err := pack.ReadBytes([]byte(found.str(i + 1)))
		if err != nil {
			return nil, fmt.Errorf("answer of %s in %s: %w", agent, ref, err)
		}
		var a Answer
		if err := json.Unmarshal(text, &a); err != nil {
			return nil, fmt.Errorf("answer of %s in %s: %w", agent, ref, err)
		}
		answers[agent] = a
	}
	return answers, nil
}
