package activities

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"

	"github.com/millrace/millrace/internal/rollout"
)

// Temporal hears of a game rarely, and the game of the end of its group as soon as it would with a heartbeat as often
// as timeouts.heartbeat says: the account tells it, and then Temporal is asked.
func TestTheEndOfAGroupIsHeardOfBeforeTheNextHeartbeat(t *testing.T) {
	for _, tt := range []struct {
		name        string
		over        time.Duration // when its group is
		heard, beat time.Duration // when it ends, and when Temporal was first told of it
	}{
		{"before the first heartbeat", 20 * time.Second, 24 * time.Second, 24 * time.Second},
		{"after the first", 90 * time.Second, 96 * time.Second, 55 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onStand(t, "", func(string) {}, 0, time.Minute, func(s *stand) {
				s.plan.Timeouts.Heartbeat = rollout.Duration(10 * time.Second)
				s.at(tt.over, func() {
					s.buffer.mu.Lock()
					defer s.buffer.mu.Unlock()
					s.buffer.over, s.buffer.later = true, rollout.Refuse(rollout.Fenced, "the group is over")
					s.temporal = says(serviceerror.NewNotFound("the workflow is over"))
				})
				watch := func(ctx context.Context) error {
					ended := make(chan struct{})
					w := newGameWatch(ctx, s.acts.attempt(ctx, s.plan, 2), sync.OnceFunc(func() { close(ended) }))
					w.timeout = time.Minute // as its workflow has scheduled it
					return w.until(ended, nil)
				}
				s.env.RegisterActivity(watch)
				if _, err := s.env.ExecuteActivity(watch); err != nil {
					t.Error(err)
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				if took := time.Since(s.began); took != tt.heard || len(s.beats) == 0 || s.beats[0] != tt.beat {
					t.Errorf("ended after %v, heartbeats %v; want %v, the first heartbeat at %v", took, s.beats, tt.heard, tt.beat)
				}
			})
		})
	}
}
