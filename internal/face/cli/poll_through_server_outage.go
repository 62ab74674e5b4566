package cli

import (
	"context"
	"time"
)

const (
	// pollEvery is how often what is watched is asked about.
	pollEvery = time.Second
	// patience is how long a server may be unavailable before a watcher gives up: it may be restarting.
	patience = 30 * time.Second
)

// outage is how long a watched server has not answered: it may be restarting, so the watch waits.
type outage struct {
	*session
	most  time.Duration     // how long it is waited for
	tell  func(text string) // that it is
	since time.Time
}

func (s *session) outage(most time.Duration) *outage {
	return &outage{session: s, most: most, tell: func(text string) { s.Say("%s", text) }}
}

// after handles the outcome of a call. An error ends the watch; nil: it goes on, though there may have been no answer.
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

// poll asks again and again until it is done, and bears a server that does not answer for as long as the outage says.
func (s *session) poll(ctx context.Context, every time.Duration, server *outage,
	ask func(context.Context) (done bool, err error)) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		done, err := ask(ctx)
		if done {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := server.after(err); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
