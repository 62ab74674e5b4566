package connections

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace/millrace/internal/kit/statefolder"
	"github.com/millrace/millrace/internal/kit/units"
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
