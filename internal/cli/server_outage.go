package cli

import (
	"context"
	"time"
)

// outage is how long the server has not answered somebody who watches: it may be restarting, and is waited for.
type outage struct {
	*session
	most  time.Duration     // how long it is waited for
	tell  func(text string) // that it is
	since time.Time
}

func (s *session) outage(most time.Duration) *outage {
	return &outage{session: s, most: most, tell: func(text string) { s.say("%s", text) }}
}

// after takes what became of a call. An error ends the watch; nil: it goes on, though there may have been no answer.
func (o *outage) after(err error) error {
	switch {
	case err == nil:
		o.since = time.Time{}
	case ExitCode(err) != ExitUnavailable:
		return err
	case o.since.IsZero():
		o.since = o.now()
		o.tell("the server does not answer; waiting for it")
	case o.now().Sub(o.since) > o.most:
		return err
	}
	return nil
}

// tick waits for the next one.
func tick(ctx context.Context, ticker *time.Ticker) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-ticker.C:
		return nil
	}
}
