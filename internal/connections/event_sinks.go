package connections

import (
	"context"
	"sync"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/telemetry"
)

// Sinks is where this process's events go: our own store. From there a server delivers them to Axiom.
type Sinks struct {
	emitters []telemetry.Emitter
	closers  []func()
	running  sync.WaitGroup
	cancel   context.CancelFunc
}

var _ telemetry.Emitter = (*Sinks)(nil)

// OpenSinks starts the sinks. They outlive ctx until Close, so that what happens while a process winds up is kept too.
func OpenSinks(ctx context.Context, cfg config.Service, b *Set) (*Sinks, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &Sinks{cancel: cancel}
	b.openSpool(cfg)
	s.running.Go(func() { b.watchSpool(ctx) })
	s.add(b.Events, b.Events.Close, func() { b.Events.Run(ctx) })
	return s, nil
}

func (s *Sinks) add(e telemetry.Emitter, closer, run func()) {
	s.emitters = append(s.emitters, e)
	s.closers = append(s.closers, closer)
	s.running.Go(run)
}

// Emit gives the event to every sink.
func (s *Sinks) Emit(e telemetry.Event) {
	for _, sink := range s.emitters {
		sink.Emit(e)
	}
}

// Close ships what was emitted, within the bounds of each sink, and ends them.
func (s *Sinks) Close() {
	for _, close := range s.closers {
		close()
	}
	s.cancel()
	s.running.Wait()
}
