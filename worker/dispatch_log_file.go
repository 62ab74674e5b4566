package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/millrace/millrace/internal/engine/dispatch/dispatchlog"
)

// dispatchLogFile is the file to which the dispatcher writes what it is told and decides, or none.
type dispatchLogFile struct {
	writer *dispatchlog.Writer // nil: nothing is logged
	name   string
	logger *slog.Logger
}

// openDispatchLog opens the file, or the first of FILE.2, FILE.3, ... that is not there yet: a worker that is started
// again must not write over what the one before it logged.
func openDispatchLog(name string, logger *slog.Logger) (*dispatchLogFile, error) {
	l := &dispatchLogFile{logger: logger}
	if name == "" {
		return l, nil
	}
	const most = 1000
	for n := 1; n <= most; n++ {
		if l.name = name; n > 1 {
			l.name = fmt.Sprintf("%s.%d", name, n)
		}
		file, err := os.OpenFile(l.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("worker.dispatch_log: %w", err)
		}
		logger.Info("logging the dispatcher's events and decisions", "file", l.name)
		l.writer = dispatchlog.NewWriter(file, 0)
		return l, nil
	}
	return nil, fmt.Errorf("worker.dispatch_log: %s and %d more are there already; move them away", name, most-1)
}

// close ends the log, once the dispatcher has ended.
func (l *dispatchLogFile) close() {
	if l.writer == nil {
		return
	}
	if err := l.writer.Close(); err != nil {
		l.logger.Warn("the dispatch log is not complete", "file", l.name, "error", err)
	}
}
