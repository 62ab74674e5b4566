package connections

import (
	"context"
	"sync"

	"github.com/millrace/millrace/internal/observe/prom/processmetrics"
)

// WriteEvents has what is emitted to Events written, until stop is called: it ends when what was emitted before is
// written, or on the disk. It outlives ctx, so that what happens while a process winds up is kept, too.
func (b *Set) WriteEvents(ctx context.Context, cfg Config) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	b.openSpool(cfg)
	var running sync.WaitGroup
	running.Go(func() { b.watchSpool(ctx) })
	running.Go(func() { b.Events.Run(ctx) })
	return func() {
		b.Events.Close()
		cancel()
		running.Wait()
	}
}

// StoreSink is how this process's own way into the event store stands.
func (b *Set) StoreSink() processmetrics.Sink {
	written := b.Events.Stats()
	return processmetrics.Sink{Delivered: written.Written, Lost: written.Lost(), Waiting: written.Waiting,
		SpoolBytes: written.SpoolBytes, Degraded: written.DiskFault != ""}
}
