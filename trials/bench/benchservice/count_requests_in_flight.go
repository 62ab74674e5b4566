package benchservice

import (
	"sync"
	"time"
)

// SlotsInUse counts the requests that an engine has in flight.
type SlotsInUse struct {
	mu   sync.Mutex
	now  int
	most int
	used time.Duration // by time
	at   time.Time
}

func (s *SlotsInUse) add(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passed()
	s.now += n
	s.most = max(s.most, s.now)
}

func (s *SlotsInUse) passed() {
	now := time.Now()
	s.used += time.Duration(s.now) * now.Sub(s.at)
	s.at = now
}

// Since is the time for which slots were in use since the call before, summed up over them, and the most that were.
func (s *SlotsInUse) Since() (used time.Duration, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passed()
	used, most = s.used, s.most
	s.used, s.most = 0, s.now
	return used, most
}
