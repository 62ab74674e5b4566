package connections

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/kit/statefolder"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/observe/prom/processmetrics"
)

// openSpool has facts wait on the disk until Redis has them. A process goes on without: it then says that facts wait in
// memory only.
func (b *Set) openSpool(cfg Config) {
	if cfg.Spool.MaxBytes == 0 {
		return
	}
	dir := spoolFolder(cfg, os.Getenv)
	if err := b.Events.SpoolIn(dir, cfg.Spool.MaxBytes); err != nil {
		b.Log.Warn("facts wait in memory only while Redis does not answer; set spool.dir or MILLRACE_SPOOL_DIR to a folder "+
			"that can be written", "error", err)
		return
	}
	b.Log.Debug("facts wait on the disk while Redis does not answer", "folder", dir)
}

// spoolFolder is a folder of its own for each Redis and prefix, so that facts reach the one that they are of.
func spoolFolder(cfg Config, getenv func(string) string) string {
	dir := cfg.Spool.Dir
	if dir == "" {
		dir = filepath.Join(statefolder.Of(getenv), "millrace", "spool")
	}
	return filepath.Join(dir, cfg.DeploymentName())
}

const watchSpoolEvery = 2 * time.Second

// watchSpool says when facts begin to wait, when they are through, and what is lost.
func (b *Set) watchSpool(ctx context.Context) {
	ticker := time.NewTicker(watchSpoolEvery)
	defer ticker.Stop()
	was := b.Events.Stats()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		is := b.Events.Stats()
		switch {
		case is.Unavailable && !was.Unavailable:
			b.Log.Warn("Redis takes no events: facts wait on the disk, and the latest samples in memory",
				"waiting", units.Bytes(is.SpoolBytes))
		case !is.Unavailable && was.Unavailable:
			b.Log.Info("Redis takes events again")
		}
		if is.DiskFault != "" && was.DiskFault == "" {
			b.Log.Error("facts cannot wait on the disk: make room, or set spool.dir to another folder",
				"error", is.DiskFault)
		}
		if n := is.LostFacts - was.LostFacts; n > 0 {
			why := "neither Redis, nor the disk, nor memory had room"
			if is.Refusal != "" {
				why = "Redis refuses them: " + is.Refusal
			}
			b.Log.Error("facts are lost", "facts", n, "error", why)
		}
		was = is
	}
}

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
