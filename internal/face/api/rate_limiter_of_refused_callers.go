package api

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// rateLimiter bounds how often something is refused for one key, such as an address that sends no valid token.
type rateLimiter struct {
	mu sync.Mutex
	by map[string]*rate.Limiter
}

const (
	rateBurst     = 20     // at once
	ratePerSecond = 1      // and after that
	rateKeys      = 10_000 // remembered; when there are more, all are forgotten
)

// take counts a request of a key. wait is how long the next one should wait; 0 below the limit.
func (s *rateLimiter) take(key string, now time.Time) (wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.by[key]
	if one == nil {
		if s.by == nil || len(s.by) >= rateKeys {
			s.by = map[string]*rate.Limiter{}
		}
		one = rate.NewLimiter(ratePerSecond, rateBurst)
		s.by[key] = one
	}
	turn := one.ReserveN(now, 1)
	if wait = turn.DelayFrom(now); wait > 0 {
		turn.CancelAt(now)
	}
	return wait
}
