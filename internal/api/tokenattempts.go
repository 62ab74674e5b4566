package api

import (
	"sync"
	"time"
)

// strangers counts requests without a valid token, by address. A valid token is never held up by them.
type strangers struct {
	mu sync.Mutex
	by map[string]*knocks
}

// knocks is a bucket that fills with time and that each request empties by one.
type knocks struct {
	left float64
	at   time.Time
}

const (
	knockBurst     = 20     // refused with 401 at once
	knockPerSecond = 1      // and after that
	knockAddresses = 10_000 // remembered; when there are more, all are forgotten
)

// knock counts a request from an address; wait is how long the next one should wait, 0 while there are not too many.
func (s *strangers) knock(address string, now time.Time) (wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.by[address]
	if k == nil {
		if s.by == nil || len(s.by) >= knockAddresses {
			s.by = map[string]*knocks{}
		}
		k = &knocks{knockBurst, now}
		s.by[address] = k
	}
	k.left = min(knockBurst, k.left+knockPerSecond*now.Sub(k.at).Seconds())
	k.at = now
	if k.left < 1 {
		return time.Duration((1 - k.left) / knockPerSecond * float64(time.Second))
	}
	k.left--
	return 0
}
