// Package panics makes a panic the failure of one piece of work, where that is one caller's and not the process's: a
// request, a page, an analysis. A goroutine that nobody else recovers is to run such work in Catch. Start reading at
// Watch.Catch.
package panics

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
)

// ErrBroken is the error of work that panicked. Only the log has the cause, which may be confidential.
var ErrBroken = errors.New("a fault of the program stopped it; the server's log has the cause")

// Watch logs and counts panics. The zero Watch logs to the default logger and counts nothing.
type Watch struct {
	Log   *slog.Logger
	Count func(in string)
}

// Catch does work, and answers a panic in it as an error.
func (w Watch) Catch(in string, work func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			w.Note(in, cause)
			err = fmt.Errorf("%s: %w", in, ErrBroken)
		}
	}()
	return work()
}

// Note logs and counts a panic that has been recovered from; attrs say of what it was.
func (w Watch) Note(in string, cause any, attrs ...any) {
	log := w.Log
	if log == nil {
		log = slog.Default()
	}
	log.With(attrs...).Error("panic", "in", in, "cause", cause, "stack", string(debug.Stack()))
	if w.Count != nil {
		w.Count(in)
	}
}
