package dispatch

import (
	"time"

	"github.com/millrace/millrace/internal/kit/units"
)

// silent reports whether an engine that let a request's deadline pass gave no sign of life for longer than requests
// take: since the request was sent, or, where deadlines are shorter than that, since it was asked at all.
func (s *Scheduler) silent(e *engine, q *entry) bool {
	usual := s.usual()
	if usual > 0 && s.now.Sub(units.Later(q.sentAt, e.lifeAt)) > max(usual, s.cfg.SignDelay) {
		return true
	}
	return !e.askedAt.IsZero() && s.now.Sub(e.askedAt) > max(usual, s.cfg.Patience)
}

// slower reports whether an engine gave no sign of life while it let a request's deadline pass, in which time another
// engine served the same run: its deadlines can be kept, but not there.
func (s *Scheduler) slower(e *engine, q *entry) bool {
	return e.lifeAt.Before(q.sentAt) && q.run.servedAt.After(q.sentAt)
}

// usual is the longest usual time of an answered request, over all runs; 0: not known.
func (s *Scheduler) usual() time.Duration {
	longest := time.Duration(0)
	for _, r := range s.runs {
		longest = max(longest, r.took.most())
	}
	return longest
}

// spans is how long something takes: a mean and the mean deviation from it.
type spans struct{ mean, deviation time.Duration }

func (d *spans) add(took time.Duration) {
	if d.mean == 0 {
		d.mean, d.deviation = max(took, 1), took/2
		return
	}
	off := took - d.mean
	d.mean = max(1, d.mean+off/8)
	d.deviation += (max(off, -off) - d.deviation) / 4
}

// most is more than all but a few take; 0: nothing is known.
func (d *spans) most() time.Duration { return d.mean + 4*d.deviation }
