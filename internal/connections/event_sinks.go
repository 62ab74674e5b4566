package connections

import (
	"context"
	"fmt"
	"sync"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/telemetry"
	"github.com/millrace/millrace/internal/telemetry/axiom"
)

// Sinks is where this process's events go: our own store always, Axiom when it is configured.
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
	b.emit = s
	s.add(b.Events, b.Events.Close, func() { b.Events.Run(ctx) })
	if !cfg.Axiom.Enabled() {
		if cfg.Axiom.Token != "" {
			b.Log.Warn("AXIOM_TOKEN is set, but no dataset: nothing is shipped to Axiom; set AXIOM_DATASET or axiom.dataset")
		}
		return s, nil
	}
	shipper, err := axiom.New(axiom.Config{Token: cfg.Axiom.Token.Reveal(), Dataset: cfg.Axiom.Dataset,
		URL: cfg.Axiom.URL})
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("AXIOM_TOKEN, AXIOM_DATASET and AXIOM_URL (tokens begin with xaat-): %w", err)
	}
	s.add(shipper, shipper.Close, func() { shipper.Run(ctx) })
	b.Log.Info("shipping events to Axiom", "dataset", cfg.Axiom.Dataset)
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
