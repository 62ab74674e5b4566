package api

import (
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/buffer"
)

// doubted has a run compare its account at once when a call waits for that.
func (s *Server) doubted(run rollout.RunName, err error) {
	if buffer.Unconfirmed(err) {
		s.compare(run)
	}
}

// compare asks a run to compare its account, twice a second at most, however many calls wait.
func (s *Server) compare(run rollout.RunName) {
	now := s.deps.Now()
	last, _ := s.comparing.LoadOrStore(run, time.Time{})
	if now.Sub(last.(time.Time)) < askAgainAfter {
		return
	}
	s.comparing.Store(run, now)
	s.hint(run)
}

// forgetCompared forgets the runs that were asked to compare so long ago that they may be asked again.
func (s *Server) forgetCompared() {
	s.comparing.Range(func(run, asked any) bool {
		if s.deps.Now().Sub(asked.(time.Time)) >= askAgainAfter {
			s.comparing.CompareAndDelete(run, asked)
		}
		return true
	})
}
