package live

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/millrace/millrace/internal/dispatch"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/vllm"
)

// Batcher is an engine that takes several requests in one call; without it, the requests of a batch are calls of
// their own. The error is of the whole call.
type Batcher interface {
	CompleteMany(ctx context.Context, reqs []rollout.Request) ([]vllm.Answer, error)
}

var _ Batcher = (*vllm.Client)(nil)

// shared is one call for several requests. It goes on until it is answered or nobody waits for it any more.
type shared struct {
	reqs    []rollout.Request
	cancel  context.CancelFunc
	waiting atomic.Int32
	done    chan struct{} // closed when answers and err are set
	answers []vllm.Answer
	err     error
}

// wait is the part of the answer that belongs to request i. The request's own deadline and withdrawal are in ctx.
func (s *shared) wait(ctx context.Context, i int) (rollout.Completion, error) {
	select {
	case <-s.done:
	case <-ctx.Done():
		if s.waiting.Add(-1) == 0 {
			s.cancel()
		}
		code := rollout.CodeCancelled
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			code = rollout.CodeTimeout
		}
		return rollout.Completion{}, rollout.Fail(rollout.Retryable, code, ctx.Err())
	}
	if s.err != nil {
		return rollout.Completion{}, s.err
	}
	return s.answers[i].Completion, s.answers[i].Err
}

// sendBatch gives a batch to its engine, in one call if the engine can take it so.
func (o *eventLoop) sendBatch(batch []dispatch.Send) {
	client, ok := o.remotes[batch[0].Engine].client.(Batcher)
	if len(batch) == 1 || !ok {
		for _, s := range batch {
			o.send(s, nil, 0)
		}
		return
	}
	ctx, cancel := context.WithCancel(o.ctx)
	call := &shared{cancel: cancel, done: make(chan struct{})}
	call.waiting.Store(int32(len(batch)))
	var first []rollout.Request // tried for the first time
	for i, s := range batch {
		req := o.calls[s.ID].req
		call.reqs = append(call.reqs, req)
		if s.Try == 1 {
			first = append(first, req)
		}
		o.send(s, call, i)
	}
	o.background.Go(func() {
		defer cancel()
		defer close(call.done)
		if begins := o.d.cfg.OnDispatch; begins != nil {
			for _, req := range first {
				begins(req)
			}
		}
		call.answers, call.err = client.CompleteMany(ctx, call.reqs)
	})
}
