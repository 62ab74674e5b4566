package crashtest

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/kit/filelock"
	"github.com/millrace/millrace/internal/kit/freeport"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/scaling/scaledfleet"
	"github.com/millrace/millrace/internal/scaling/supply"
)

// Of the engines that are bought: they are reached through the recorder, which listens at the same ports of another
// address of this host, from the moment that an engine runs at one.
const (
	mostBought    = 3
	boughtPorts   = 500 // none is taken twice, since the recorder stays
	boughtHost    = "127.0.0.2"
	boughtCold    = "4s"
	scalingID     = "millrace/scaling"
	scalingUpdate = "settings"
	enginePrice   = 36.0 // $ an hour: a cent a second
)

// boughtEngines is what the harness knows of engines that are bought.
type boughtEngines struct {
	first   int    // port
	dir     string // of the provider's state
	release func() // of the file on which they live

	mu     sync.Mutex
	began  time.Time
	ledger boughtLedger
}

// prepareScaling puts the recorder before every engine that is bought, until release.
func (s *service) prepareScaling(ctx context.Context) (err error) {
	if s.cfg.Deck != Scaling {
		return nil
	}
	b := &boughtEngines{dir: filepath.Join(s.cfg.Dir, "bought"), began: time.Now()}
	if b.first, err = freeport.Port(); err != nil {
		return err
	}
	b.first = min(b.first, 65535-boughtPorts)
	if err := b.writeStarter(); err != nil {
		return err
	}
	unlock, err := filelock.Lock(ctx, filepath.Join(s.cfg.Dir, "lifeline"))
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.recordBought(watching, b)
	}()
	b.release = func() {
		stop()
		<-ended
		unlock()
	}
	s.bought = b
	return nil
}

// recordBought puts the recorder before every engine that begins to run, and enters what runs, until ctx is done.
func (s *service) recordBought(ctx context.Context, b *boughtEngines) {
	recorded := map[int]bool{}
	for retry.Pause(ctx, 100*time.Millisecond) == nil {
		running, _ := b.running()
		b.mu.Lock()
		b.ledger.look(time.Now(), running)
		b.mu.Unlock()
		for _, p := range running {
			if recorded[p.port] {
				continue
			}
			_, err := s.recorder.serveAt(fmt.Sprintf("%s:%d", boughtHost, p.port), engines+len(recorded),
				fmt.Sprintf("127.0.0.1:%d", p.port))
			if err != nil {
				s.say("  %v", err) // tried again
				continue
			}
			recorded[p.port] = true
		}
	}
}

// scalingSection is the section of the configuration by which the fleet scales.
func (s *service) scalingSection() string {
	if s.bought == nil {
		return ""
	}
	return fmt.Sprintf(`scaling:
  provider: process
  policy: fixed
  engines: %d
  min: 0
  max: %d
  window: 1s
  price: %g
  deployment: %s
  process:
    command: "/bin/sh %s {millrace} engine simulate --port {port} --speed %s --cold-start %s"
    env: ["%s={id}"]
    host: %s
    ports: %d-%d
    state_dir: %q
    lifeline: %q
    grace: 2s
`, engines+1, engines+mostBought, enginePrice, prefix, s.bought.starter(), engineSpeed, boughtCold, boughtIDVariable, boughtHost,
		s.bought.first, s.bought.first+boughtPorts-1, s.bought.dir, filepath.Join(s.cfg.Dir, "lifeline"))
}

// view is what is told of scaling.
func (in *injector) view(ctx context.Context) (supply.View, error) {
	registry := scaledfleet.Registry{Registry: fleet.NewRegistry(in.service.rdb, prefix, time.Now)}
	view, _, err := registry.Scaling(ctx)
	return view, err
}
