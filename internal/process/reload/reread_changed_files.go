package reload

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Files is files that are read again when they change, and when the process is sent SIGHUP. What cannot be read leaves
// in force what was read before.
type Files struct {
	log   *slog.Logger
	items []*item
}

// NewFiles tells the log what is read again, and what cannot be.
func NewFiles(log *slog.Logger) *Files { return &Files{log: log} }

type item struct {
	what  string
	files []string
	load  func() error
	seen  string // the state of the files that were read last, or tried
}

// Read reads what is in the files, which must succeed, and lets it be read again when they change.
func (r *Files) Read(what string, load func() error, files ...string) error {
	one := r.follow(what, load, files...)
	if err := load(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	r.items = append(r.items, one)
	return nil
}

func (r *Files) follow(what string, load func() error, files ...string) *item {
	one := &item{what: what, files: files, load: load}
	one.seen = one.state()
	return one
}

// errTryAgain wraps why what was read could not be taken up as a whole yet: it is tried again at the next look.
var errTryAgain = errors.New("tried again")

// state changes whenever one of the files does.
func (r *item) state() string {
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

// Watch reads again until ctx is done. It takes SIGHUP, which would end the process otherwise.
func (r *Files) Watch(ctx context.Context) {
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
			r.log.Info("SIGHUP: reading files again", "what", r.names())
			r.again(true)
		case <-look.C:
			r.again(false)
		}
	}
}

func (r *Files) again(all bool) {
	for _, one := range r.items {
		state := one.state()
		if state == one.seen && !all {
			continue
		}
		one.seen = state
		err := one.load()
		if errors.Is(err, errTryAgain) {
			one.seen = ""
			r.log.Error("read again, and not all of it could be taken up yet", "what", one.what, "error", err)
			continue
		}
		if err != nil {
			r.log.Error("not read again; what was read before stays in force", "what", one.what, "files",
				one.files, "error", err)
			continue
		}
		r.log.Info("read again", "what", one.what, "files", one.files)
	}
}

func (r *Files) names() []string {
	var names []string
	for _, one := range r.items {
		names = append(names, one.what)
	}
	return names
}
