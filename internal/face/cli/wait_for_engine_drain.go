package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/kit/progressline"

	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// errTooLong ends a wait that has taken longer than --timeout.
var errTooLong = WithCode(errors.New("the time of --timeout is over"), ExitTimeout)

// drainWait is a wait for an engine that is drained, or that leaves.
type drainWait struct {
	*session
	client Client
	id     string
	leaves bool
	line   *progressline.Line
	server *outage
	heard  bool // of the engine, since it was asked to go
	seen   drainProgress
}

// waitDrained asks for an engine to go, by ask, and waits until it has finished what it has, or if it leaves is gone. A
// server that is being restarted is waited for, also with the first request: a hook that runs before a pod's end has no
// second try.
func (s *session) waitDrained(
	ctx context.Context, c Client, id string, leaves bool, timeout time.Duration, ask func(context.Context) error,
) error {
	w := &drainWait{session: s, client: c, id: id, leaves: leaves, server: s.outage(patience)}
	waiting, cancel := ctx, context.CancelFunc(func() {})
	if timeout > 0 {
		waiting, cancel = context.WithTimeoutCause(ctx, timeout, errTooLong)
	}
	defer cancel()
	err := s.poll(waiting, pollEvery, w.server, func(ctx context.Context) (bool, error) {
		err := ask(ctx)
		return err == nil, err
	})
	if err == nil {
		w.line = progressline.Start(s.Stderr, "draining "+id)
		defer w.line.End()
		w.server.tell = w.line.Say
		err = s.poll(waiting, pollEvery, w.server, w.look)
	}
	if ctx.Err() == nil && waiting.Err() != nil && err != nil {
		return w.tooLong(timeout)
	}
	return err
}

// tooLong says how far the engine is. Whether it is drained at all is not known while the server does not answer.
func (w *drainWait) tooLong(timeout time.Duration) error {
	if !w.heard || !w.server.since.IsZero() {
		return fmt.Errorf("drain engine %s: the server has not answered within %s: %w", w.id, timeout,
			context.DeadlineExceeded)
	}
	return fmt.Errorf("engine %s still has %d requests after %s, and goes on draining; have them sent again elsewhere "+
		"with --now: %w", w.id, w.seen.left, timeout, errTooLong)
}

// look looks at the engine once.
func (w *drainWait) look(ctx context.Context) (done bool, err error) {
	e, _, err := apiclient.Get[enginestate.Engine](ctx, w.client.Client, apiclient.EnginePath(w.id))
	switch {
	case ExitCode(err) == ExitNotFound:
		w.end("engine %s has left", w.id)
		return true, nil
	case err != nil:
		return false, err
	}
	w.heard = true
	end := w.seen.take(e)
	w.line.At(w.seen.most-w.seen.left, w.seen.most, "requests", string(e.State))
	switch {
	case end == drainUndone:
		return true, &apiclient.Problem{Status: http.StatusConflict,
			Detail: fmt.Sprintf("engine %s is %s: somebody has added it again", w.id, e.State)}
	case end == drainGoesOn || w.leaves:
		return false, nil
	case end == drainLost:
		w.end("engine %s is lost (%s); what it had is sent again elsewhere", w.id, e.Reason)
	default:
		w.end("engine %s has finished what it had", w.id)
	}
	return true, nil
}

// end shows how the wait has ended, in the place of how far it is.
func (w *drainWait) end(format string, args ...any) {
	w.line.End()
	w.Say(format, args...)
}

// drainProgress is how far a drain is, by what is seen of the engine.
type drainProgress struct {
	left, most int64     // requests that it has, and the most that it had
	at         time.Time // of the newest look of the keeper's; zero: none has counted its requests
	idle       int       // looks in a row, since the drain was asked for, that found nothing
}

// drainEnd is whether and how a drain has ended.
type drainEnd uint8

const (
	drainGoesOn drainEnd = iota
	drainFinished
	drainLost   // the engine does not answer any more
	drainUndone // the engine was added again
)

// idleLooks is how many looks must find nothing: a request may have been on its way when the first was made.
const idleLooks = 2

// take takes in what is seen of the engine. Before the keeper has noticed the drain, an engine that is not ready is in
// the state that it was in.
func (p *drainProgress) take(e enginestate.Engine) drainEnd {
	switch e.State {
	case enginestate.EngineReady:
		return drainUndone
	case enginestate.EngineLost:
		return drainLost
	case enginestate.EngineDraining:
	default:
		return drainGoesOn
	}
	p.left = int64(e.Load.Running + e.Load.Waiting)
	p.most = max(p.most, p.left)
	switch {
	case p.left > 0:
		p.idle = 0
	case !p.at.IsZero() && e.Load.At.After(p.at):
		p.idle++
	}
	p.at = e.Load.At
	if p.idle >= idleLooks {
		return drainFinished
	}
	return drainGoesOn
}
