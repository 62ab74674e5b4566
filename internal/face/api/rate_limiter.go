package api

import (
	"sync"
	"time"
)

// rateLimiter bounds how often something is refused for one key, such as an address that sends no valid token.
type rateLimiter struct {
	mu sync.Mutex
	by map[string]*allowance
}

// allowance is a token bucket: it fills with time, and each request takes one.
type allowance struct {
	left float64
	at   time.Time
}

const (
	rateBurst     = 20     // at once
	ratePerSecond = 1      // and after that
	rateKeys      = 10_000 // remembered; when there are more, all are forgotten
)

// take counts a request of a key; wait is how long the next one should wait, 0 while there are not too many.
func (s *rateLimiter) take(key string, now time.Time) (wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.by[key]
	if k == nil {
		if s.by == nil || len(s.by) >= rateKeys {
			s.by = map[string]*allowance{}
		}
		k = &allowance{rateBurst, now}
		s.by[key] = k
	}
	k.left = min(rateBurst, k.left+ratePerSecond*now.Sub(k.at).Seconds())
	k.at = now
	if k.left < 1 {
		return time.Duration((1 - k.left) / ratePerSecond * float64(time.Second))
	}
	k.left--
	return 0
}
