package server

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// fileReloads is files that are read again when they change, and when the process is sent SIGHUP. What cannot be read
// leaves in force what was read before.
type fileReloads struct {
	log   *slog.Logger
	items []*fileReload
}

type fileReload struct {
	what  string
	files []string
	load  func() error
	seen  string // the state of the files that were read last, or tried
}

// add reads what is in the files, which must succeed, and lets it be read again when they change.
func (r *fileReloads) add(what string, load func() error, files ...string) error {
	one := &fileReload{what: what, files: files, load: load}
	one.seen = one.state()
	if err := load(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	r.items = append(r.items, one)
	return nil
}

// state changes whenever one of the files does.
func (r *fileReload) state() string {
	text := ""
	for _, file := range r.files {
		info, err := os.Stat(file)
		if err != nil {
			text += fmt.Sprintf("%s %v;", file, err)
			continue
		}
		inode := uint64(0)
		if system, ok := info.Sys().(*syscall.Stat_t); ok {
			inode = system.Ino
		}
		text += fmt.Sprintf("%s %d %d %d;", file, info.ModTime().UnixNano(), info.Size(), inode)
	}
	return text
}

// reloadEvery is how soon a change of a file is noticed.
const reloadEvery = 2 * time.Second

// watch reads again until ctx is done. It takes SIGHUP, which would end the process otherwise.
func (r *fileReloads) watch(ctx context.Context) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	look := time.NewTicker(reloadEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			r.log.Info("SIGHUP: reading tokens and certificates again", "kinds", len(r.items))
			r.again(true)
		case <-look.C:
			r.again(false)
		}
	}
}

func (r *fileReloads) again(all bool) {
	for _, one := range r.items {
		state := one.state()
		if state == one.seen && !all {
			continue
		}
		one.seen = state
		if err := one.load(); err != nil {
			r.log.Error("not read again; what was read before stays in force", "what", one.what, "files",
				one.files, "error", err)
			continue
		}
		r.log.Info("read again", "what", one.what, "files", one.files)
	}
}
