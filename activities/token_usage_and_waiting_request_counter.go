package activities

import (
	"context"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/rollout"
)

// usageCounter is a policy that counts what its answers cost. It knows so of games that end without a result, too.
type usageCounter struct {
	policy episode.Policy
	now    func() time.Time

	mu      sync.Mutex
	used    rollout.Usage
	waiting map[*rollout.Request]time.Time // requests under way, and since when
}

// start begins to count, with what earlier attempts at the game have used.
func (m *usageCounter) start(policy episode.Policy, from *rollout.Checkpoint) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.policy = policy
	if from != nil {
		m.used = from.Episode.Usage
	}
}

// Complete asks the policy. What is asked elsewhere neither waits for engines nor costs their tokens.
func (m *usageCounter) Complete(ctx context.Context, req rollout.Request) (rollout.Completion, error) {
	if req.URL != "" {
		return m.policy.Complete(ctx, req)
	}
	m.mu.Lock()
	if m.waiting == nil {
		m.waiting = map[*rollout.Request]time.Time{}
	}
	m.waiting[&req] = m.now()
	m.mu.Unlock()
	c, err := m.policy.Complete(ctx, req)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.waiting, &req)
	if err == nil {
		m.used = m.used.Add(c.Usage())
	}
	return c, err
}

// waitingSince is the models that requests have been asking for since a time, or for longer.
func (m *usageCounter) waitingSince(since time.Time) (models []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for req, began := range m.waiting {
		if !began.After(since) {
			models = append(models, req.Model)
		}
	}
	return models
}

// total is what the game has used so far.
func (m *usageCounter) total() rollout.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}
