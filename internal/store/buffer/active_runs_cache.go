package buffer

import (
	"context"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// recentFor is how long a reading of the active runs serves all parts of a process.
const recentFor = time.Second

// recentRuns is the latest reading of the active runs. Who has the token may read them again.
type recentRuns struct {
	token chan struct{}
	runs  []runstatus.RunStatus
	at    time.Time
}

// RecentlyActive is Active as it was at most a second ago. The parts of a process that follow the runs share one
// reading of Redis; an operator's call reads anew.
func (s *Store) RecentlyActive(ctx context.Context) ([]runstatus.RunStatus, error) {
	select {
	case s.recent.token <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.recent.token }()
	now := s.now()
	if age := now.Sub(s.recent.at); age >= 0 && age < recentFor {
		return slices.Clone(s.recent.runs), nil
	}
	runs, err := s.Active(ctx)
	if err != nil {
		return nil, err
	}
	s.recent.runs, s.recent.at = runs, now
	return slices.Clone(runs), nil
}
