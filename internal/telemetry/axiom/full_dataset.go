package axiom

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/telemetry/store"
)

// fullDataset is what to do about events that were refused because the dataset has as many fields as it may: others
// pass, so that these are dead letters, and yet nothing is wrong with them. From time to time one is delivered again;
// when it passes, somebody has made room, and all of them are.
type fullDataset struct {
	next    time.Time // when one is delivered again; zero: none was refused that is known of
	looked  bool      // what earlier processes have left was looked for
	cleared bool      // one has passed
}

const (
	fieldLimitEvery = 10 * time.Minute
	lettersPage     = 500
)

// delivered notes what became of a batch.
func (f *fullDataset) delivered(rows []row, refused map[int]string, now time.Time) {
	replayed := false
	for i, r := range rows {
		replayed = replayed || r.scope == store.Replayed
		if fieldLimit(refused[i]) {
			f.next, f.cleared = now.Add(fieldLimitEvery), false
			return
		}
	}
	f.cleared = f.cleared || replayed && !f.next.IsZero()
}

// retryFieldLimit has one such event delivered again when it is time, or all when one has passed. That the store does
// not answer shows elsewhere; it is tried again.
func (s *Shipper) retryFieldLimit(ctx context.Context) {
	f, now := &s.dataset, time.Now()
	if !f.looked {
		f.looked, f.next = true, now.Add(s.cfg.Poll)
	}
	if f.next.IsZero() || !f.cleared && now.Before(f.next) {
		return
	}
	f.next = now.Add(fieldLimitEvery)
	var waiting []string
	for after := ""; ; {
		page, err := s.events.DeadLetters(ctx, Name, after, lettersPage)
		if err != nil {
			return
		}
		for _, l := range page {
			if after = l.ID; fieldLimit(l.Reason) {
				waiting = append(waiting, l.ID)
			}
		}
		if len(page) < lettersPage || len(waiting) > 0 && !f.cleared {
			break
		}
	}
	switch {
	case len(waiting) == 0:
		*f = fullDataset{looked: true}
	case f.cleared:
		if _, err := s.events.Replay(ctx, Name, waiting...); err == nil {
			*f = fullDataset{looked: true}
		}
	default:
		_, _ = s.events.Replay(ctx, Name, waiting[0])
	}
}
