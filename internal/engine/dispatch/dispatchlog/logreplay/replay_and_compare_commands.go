// Package logreplay plays the log of a worker's scheduler again: its events at their times, given to a
// dispatch.Scheduler in virtual time, must bring the very same commands. Start reading at Run.
package logreplay

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch"
	"github.com/millrace/millrace/internal/engine/dispatch/dispatchlog"
)

// Replay is the outcome of replaying a log.
type Replay struct {
	Header   dispatchlog.Header
	Events   int64
	Requests int64 // submitted
	Commands int64
	Span     time.Duration // from the first event to the last
	Full     bool          // the log reached its bound before the dispatcher ended
	// Difference is the first event that brought other commands than it did live; nil: none did.
	Difference *Difference
}

// Difference is an event that brought other commands than before.
type Difference struct {
	Line     int
	At       time.Duration // since the start of the log
	Event    string        // as the log has it
	Recorded []dispatch.Command
	Replayed []dispatch.Command
}

// ErrNoEnd is returned when a log stops without its last line: its writer was killed, or could not write on. The lines
// before it were replayed.
var ErrNoEnd = errors.New("the log ends without its last line: " +
	"the process that wrote it was killed, or its disk was full")

// Run gives a log's events to a scheduler in virtual time and compares the commands, up to the first difference. An
// error says what is wrong with the log, and in which line.
func Run(log io.Reader) (Replay, error) {
	var r Replay
	lines := &lineReader{in: bufio.NewReaderSize(log, 1<<16)}
	if err := r.begin(lines); err != nil {
		return r, err
	}
	scheduler := dispatch.New(r.Header.Scheduler)
	var first time.Duration
	for {
		text, err := lines.next()
		if errors.Is(err, io.EOF) {
			return r, fmt.Errorf("line %d: %w", lines.line+1, ErrNoEnd)
		}
		var line rawLine
		if err == nil {
			err = strictly(text, &line)
		}
		if err != nil {
			return r, fmt.Errorf("line %d: %w", lines.line, err)
		}
		if line.End != "" {
			return r, r.end(lines, &line)
		}
		if r.Events == 0 {
			first = line.At
		}
		if line.At-first < r.Span {
			return r, fmt.Errorf("line %d: time goes back, from %v to %v", lines.line, first+r.Span, line.At)
		}
		r.Span = line.At - first
		if err := r.step(scheduler, &line); err != nil {
			return r, fmt.Errorf("line %d: %w", lines.line, err)
		}
		if r.Difference != nil {
			r.Difference.Line, r.Difference.Event = lines.line, shortened(text)
			return r, nil
		}
	}
}

// begin reads the first line.
func (r *Replay) begin(lines *lineReader) error {
	text, err := lines.next()
	if errors.Is(err, io.EOF) {
		return errors.New("line 1: the log is empty")
	}
	var kind struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if err == nil {
		_ = json.Unmarshal(text, &kind) // What is no such object has no format either.
	}
	switch {
	case err != nil:
		return fmt.Errorf("line 1: %w", err)
	case kind.Format != dispatchlog.Format:
		return fmt.Errorf("line 1: this is no dispatch log: it does not begin with {\"format\":%q", dispatchlog.Format)
	case kind.Version != dispatchlog.Version:
		return fmt.Errorf("line 1: this is a log of version %d, and this program reads version %d: replay it with the "+
			"program that wrote it", kind.Version, dispatchlog.Version)
	}
	if err := strictly(text, &r.Header); err != nil {
		return fmt.Errorf("line 1: %w", err)
	}
	if err := possible(&r.Header.Scheduler); err != nil {
		return fmt.Errorf("line 1: %w", err)
	}
	return nil
}

// step replays one event.
func (r *Replay) step(scheduler *dispatch.Scheduler, line *rawLine) error {
	ev, err := line.event()
	if err != nil {
		return err
	}
	recorded, err := line.commands()
	if err != nil {
		return err
	}
	replayed, err := handle(scheduler, r.Header.Start.Add(line.At), ev)
	if err != nil {
		return err
	}
	r.Events++
	r.Commands += int64(len(recorded))
	if _, ok := ev.(dispatch.Submit); ok {
		r.Requests++
	}
	if !same(recorded, replayed) {
		r.Difference = &Difference{At: line.At, Recorded: recorded, Replayed: append([]dispatch.Command(nil), replayed...)}
	}
	return nil
}

// handle gives an event to the scheduler. The scheduler panics over what no driver may do, such as submitting a request
// twice: in a replay, that is a fault of the log.
func handle(s *dispatch.Scheduler, now time.Time, ev dispatch.Event) (commands []dispatch.Command, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%s: this cannot have happened: %v", dispatch.EventName(ev), cause)
		}
	}()
	return s.Handle(now, ev), nil
}

// same reports whether two lists of commands are the same, times compared as moments.
func same(a, b []dispatch.Command) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, isWake := a[i].(dispatch.Wake)
		y, alsoWake := b[i].(dispatch.Wake)
		if isWake && alsoWake {
			if !x.At.Equal(y.At) {
				return false
			}
			continue
		}
		if !reflect.DeepEqual(a[i], b[i]) {
			return false
		}
	}
	return true
}

// end checks the last line.
func (r *Replay) end(lines *lineReader, last *rawLine) error {
	if last.End != dispatchlog.EndClosed && last.End != dispatchlog.EndFull {
		return fmt.Errorf("line %d: there is no end %q", lines.line, last.End)
	}
	if last.Events != r.Events {
		return fmt.Errorf("line %d: the log says that it has %d events, and has %d: some are missing",
			lines.line, last.Events, r.Events)
	}
	if _, err := lines.next(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("line %d: something stands behind the log's last line", lines.line)
	}
	r.Full = last.End == dispatchlog.EndFull
	return nil
}
