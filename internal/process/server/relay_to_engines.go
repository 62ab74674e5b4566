package server

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/internal/engine/dispatch"
	"github.com/millrace/millrace/internal/engine/dispatch/live"
	"github.com/millrace/millrace/internal/engine/share/fleetsync"
	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/face/onevllm"
	"github.com/millrace/millrace/internal/process/connections"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// relay hands calls on to engines, through a dispatcher of this server, which shares the engines' limits with the
// workers as one more of them. It begins with the first call: a server without any takes no share.
type relay struct {
	conns      *connections.Set
	clients    *connections.EngineClients
	dispatcher *live.Dispatcher
	sync       fleetsync.Sync

	begin sync.Once
	begun chan struct{}
}

var _ onevllm.Fleet = (*relay)(nil)

// relayPatience is how long a call waits for an engine that serves its model, when none does any more.
const relayPatience = 30 * time.Second

func newRelay(b *connections.Set, clients *connections.EngineClients) *relay {
	self := fleetsync.Self()
	self.ID, self.Serves = "server-"+self.ID, true
	r := &relay{conns: b, clients: clients, begun: make(chan struct{})}
	r.dispatcher = live.New(live.Config{
		Scheduler: dispatch.Config{Worker: self.ID, NoEngineTTL: relayPatience},
		Clients:   func(e enginestate.Engine) live.Engine { return relaying{clients.MustGet(e)} },
		Emit:      b.Events, Worker: self.ID, SampleEvery: 2 * time.Second,
	})
	r.sync = fleetsync.Sync{Self: self, Playing: func() map[rollout.RunName]int { return nil },
		Models:  func() []enginestate.ModelUse { return nil },
		Workers: b.Workers, Fleet: b.Registry.Registry, Runs: b.Buffer, Tokens: b.Tokens, Dispatcher: r.dispatcher,
		Log: b.Log}
	return r
}

// run serves calls from the first one on until ctx is done.
func (r *relay) run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-r.begun:
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.dispatcher.Run(ctx) })
	g.Go(func() error { return r.sync.Run(ctx) })
	return g.Wait()
}

// Engines is every engine as it was seen last.
func (r *relay) Engines(ctx context.Context) ([]enginestate.Engine, error) {
	r.begin.Do(func() { close(r.begun) })
	if seen := r.sync.Engines(); seen != nil {
		return seen, nil
	}
	return r.conns.Registry.List(ctx)
}

// Client is for questions that are not a run's work.
func (r *relay) Client(e enginestate.Engine) (*vllm.Client, error) { return r.clients.Get(e) }

// Relay has an engine answer a call.
func (r *relay) Relay(ctx context.Context, req rollout.Request, call *vllm.Relayed) error {
	_, err := r.dispatcher.Complete(context.WithValue(ctx, relayedKey{}, call), req)
	return err
}

// Uses counts a run's calls here, and at the other servers as they described themselves last.
func (r *relay) Uses(ctx context.Context, run rollout.RunName, model string) (int, error) {
	workers, err := r.conns.Workers.List(ctx)
	if err != nil {
		return 0, err
	}
	uses := []enginestate.ModelUse{}
	select {
	case <-r.begun:
		uses = r.dispatcher.ModelUses()
	default:
	}
	for _, w := range workers {
		if w.Serves && w.State == enginestate.WorkerAlive && w.ID != r.sync.Self.ID {
			uses = append(uses, w.Models...)
		}
	}
	n := 0
	for _, use := range uses {
		if use.Run != run || model != "" && use.Model != model {
			continue
		}
		n += use.Queued
		for _, there := range use.InFlight {
			n += there
		}
	}
	return n, nil
}

// relayedKey finds, in a request's context, the call that it stands for.
type relayedKey struct{}

// relaying is an engine whose completions are calls of others.
type relaying struct{ *vllm.Client }

func (e relaying) Complete(ctx context.Context, _ rollout.Request) (rollout.Completion, error) {
	call, _ := ctx.Value(relayedKey{}).(*vllm.Relayed)
	return e.Client.Relay(ctx, call)
}
