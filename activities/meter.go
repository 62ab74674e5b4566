package activities

import (
	"context"
	"sync"

	"github.com/millrace/millrace/internal/episode"
	"github.com/millrace/millrace/internal/rollout"
)

// meter is a policy that counts what its answers cost. It knows so of games that end without a result, too.
type meter struct {
	policy episode.Policy

	mu   sync.Mutex
	used rollout.Usage
}

// start begins to count, with what earlier attempts at the game have used.
func (m *meter) start(policy episode.Policy, from *episode.Progress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.policy = policy
	if from != nil {
		m.used = from.Episode.Usage
	}
}

// Complete asks the policy.
func (m *meter) Complete(ctx context.Context, req rollout.Request) (rollout.Completion, error) {
	c, err := m.policy.Complete(ctx, req)
	if err == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.used = m.used.Add(episode.Usage(&c))
	}
	return c, err
}

// total is what the game has used so far.
func (m *meter) total() rollout.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}
