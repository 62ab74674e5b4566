package buffer

import (
	"context"
	"log/slog"

	"github.com/millrace/millrace/internal/rollout"
)

// StartReporter tells the buffer when a group's first request goes to an engine. The dispatcher must not wait for
// Redis, so that the news goes through a channel; when that is full the news is lost, and the group counts as queued
// until it is ready.
type StartReporter struct {
	buffer  starter
	started chan rollout.GroupRef
	log     *slog.Logger
}

type starter interface {
	Start(ctx context.Context, ref rollout.GroupRef) error
}

// NewStartReporter reports to b.
func NewStartReporter(b starter, log *slog.Logger) *StartReporter {
	return &StartReporter{buffer: b, started: make(chan rollout.GroupRef, 1024), log: log}
}

// Note is called by the dispatcher at each request's first dispatch.
func (r *StartReporter) Note(req rollout.Request) {
	select {
	case r.started <- req.Episode.GroupRef:
	default:
	}
}

// keptStarts bounds the memory of groups already reported; reporting one again is harmless.
const keptStarts = 4096

// Run reports until ctx is done.
func (r *StartReporter) Run(ctx context.Context) error {
	known := map[rollout.GroupRef]bool{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case ref := <-r.started:
			if known[ref] {
				continue
			}
			if err := r.buffer.Start(ctx, ref); err != nil {
				r.log.Warn("report the start of a group", "group", ref.String(), "error", err)
				continue
			}
			if len(known) >= keptStarts {
				clear(known)
			}
			known[ref] = true
		}
	}
}
