package connections

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/kit/statefolder"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/store/redisserver"
)

// openSpool has facts wait on the disk until Redis has them. A process goes on without: it then says that facts wait in
// memory only.
func (b *Set) openSpool(cfg config.Service) {
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
func spoolFolder(cfg config.Service, getenv func(string) string) string {
	dir := cfg.Spool.Dir
	if dir == "" {
		dir = filepath.Join(statefolder.Of(getenv), "millrace", "spool")
	}
	return filepath.Join(dir, DeploymentName(cfg))
}

// DeploymentName keeps apart what deployments leave on a host: it is that of a Redis and a prefix there.
func DeploymentName(cfg config.Service) string {
	of := cfg.Redis.Prefix
	if address, err := redisserver.Parse(cfg.Redis.URL); err == nil { // without the password, which may change
		of = address.Identity() + "\n" + cfg.Redis.Prefix
	}
	sum := sha256.Sum256([]byte(of))
	return cfg.Redis.Prefix + "-" + hex.EncodeToString(sum[:4])
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
