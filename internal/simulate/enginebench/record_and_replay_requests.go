package enginebench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/internal/engine/dispatch/live"
	"github.com/millrace/millrace/internal/rollout"
)

// requestRecording records the requests that one engine is sent, in order, so that they can be sent again.
type requestRecording struct {
	engine *Engine
	pass   int // stands before every prompt: a pass finds nothing in the prefix cache that another has left

	mu       sync.Mutex
	requests []rollout.Request
}

var _ live.Engine = (*requestRecording)(nil)

// Complete records a request and sends it.
func (t *requestRecording) Complete(ctx context.Context, req rollout.Request) (rollout.Completion, error) {
	t.mu.Lock()
	t.requests = append(t.requests, req)
	t.mu.Unlock()
	return t.engine.Client.Complete(ctx, InPass(req, t.pass))
}

// Health asks the engine.
func (t *requestRecording) Health(ctx context.Context) error { return t.engine.Client.Health(ctx) }

func (t *requestRecording) length() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.requests)
}

// InPass makes a request a stranger to those of other passes.
func InPass(req rollout.Request, pass int) rollout.Request {
	req.Prompt = fmt.Sprintf("Pass %d.\n", pass) + req.Prompt
	return req
}

// recordingPart is a part of a recording: from the request at from up to the one at to.
type recordingPart struct{ from, to int }

// replay sends the recording's requests in their order, so many at a time: a request as soon as an answer has come, and
// nothing else. It tells what the engine did along the part, and goes on, from the beginning if need be, until
// the context ends, so that engines which finish early are no less busy than the others.
func (t *requestRecording) replay(ctx context.Context, concurrency, pass int, s recordingPart,
	done func(window)) error {
	var next atomic.Int64
	began := make(chan reading, 1) // from the worker that enters the part to the one that leaves it
	send := func(ctx context.Context, i int) error {
		switch i {
		case s.from:
			r, err := t.engine.read(ctx)
			if err != nil {
				return err
			}
			began <- r
		case s.to:
			r, err := t.engine.read(ctx)
			if err != nil {
				return err
			}
			select {
			case b := <-began:
				done(between(b, r))
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		_, err := t.engine.Client.Complete(ctx, InPass(t.requests[i%len(t.requests)], pass))
		if err != nil {
			return fmt.Errorf("engine %s: %w", t.engine.url, err)
		}
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	for range concurrency {
		g.Go(func() error {
			for {
				if err := send(ctx, int(next.Add(1))-1); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}
