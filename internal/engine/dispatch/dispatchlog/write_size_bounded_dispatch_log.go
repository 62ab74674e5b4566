package dispatchlog

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch"
)

// What the last line of a log says.
const (
	EndClosed = "closed" // the dispatcher ended
	EndFull   = "full"   // the log reached its bound; the dispatcher went on
)

// DefaultMaxBytes is the default bound of a log: some two million requests.
const DefaultMaxBytes = 1 << 30

// Writer writes a log. It belongs to the one goroutine that owns the scheduler, but for Close, which comes after.
//
// A log holds times as they were given to the scheduler, to the nanosecond. A time of day that is read from a clock
// has a second, steady reading, which no file can hold; Time and Event are therefore asked first, and what they return
// is what the scheduler must be given.
type Writer struct {
	out     *bufio.Writer
	file    io.Closer
	most    int64
	written int64
	events  int64
	begun   time.Time // with its steady reading
	start   time.Time // the same without it
	ended   bool
	failed  error
}

// NewWriter makes a writer of at most so many bytes; 0: DefaultMaxBytes.
func NewWriter(file io.WriteCloser, most int64) *Writer {
	if most <= 0 {
		most = DefaultMaxBytes
	}
	return &Writer{out: bufio.NewWriterSize(file, 1<<16), file: file, most: most}
}

// Begin writes the first line.
func (w *Writer) Begin(now time.Time, h Header) {
	w.begun, w.start = now, now.Round(0).UTC()
	h.Format, h.Version, h.Start = Format, Version, w.start
	line, err := json.Marshal(h)
	w.put(append(line, '\n'), err)
}

// Time is t as a log can hold it: on one steady scale since Begin. No time remains none.
func (w *Writer) Time(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return w.start.Add(t.Sub(w.begun)) // which is bounded to some 292 years either way
}

// Event is the event with its times as a log can hold them.
func (w *Writer) Event(ev dispatch.Event) dispatch.Event {
	switch ev := ev.(type) {
	case dispatch.Submit:
		ev.Deadline = w.Time(ev.Deadline)
		return ev
	case dispatch.EngineSampled:
		ev.Load.At, ev.Load.LifeAt = w.Time(ev.Load.At), w.Time(ev.Load.LifeAt)
		return ev
	case dispatch.Cancel, dispatch.TryEnded, dispatch.EngineUp, dispatch.EngineDrain, dispatch.EngineDown,
		dispatch.EngineProbed, dispatch.RunRules, dispatch.RunOver, dispatch.Tick:
	}
	return ev
}

// Write writes an event, with the time that Time returned, and the scheduler's commands.
func (w *Writer) Write(now time.Time, ev dispatch.Event, commands []dispatch.Command) {
	if w.ended {
		return
	}
	line, err := Encode(now.Sub(w.start), ev, commands)
	const lastLine = 64
	if err == nil && w.written+int64(len(line))+lastLine > w.most {
		w.end(EndFull)
		return
	}
	if w.put(line, err); err == nil {
		w.events++
	}
}

// put writes a line, unless the log is over. What cannot be written ends it: a log with a gap replays to nothing.
func (w *Writer) put(line []byte, err error) {
	if w.ended {
		return
	}
	if err == nil {
		_, err = w.out.Write(line)
	}
	if err != nil {
		w.ended, w.failed = true, fmt.Errorf("dispatch log: %w", err)
		return
	}
	w.written += int64(len(line))
}

// Flush hands on what is buffered, so that a process that is killed loses little.
func (w *Writer) Flush() {
	if err := w.out.Flush(); err != nil && w.failed == nil {
		w.ended, w.failed = true, fmt.Errorf("dispatch log: %w", err)
	}
}

func (w *Writer) end(why string) {
	line, err := json.Marshal(eventLine{End: why, Events: w.events})
	w.put(append(line, '\n'), err)
	w.ended = true
}

// Close writes the last line and closes the file. It returns the first error of the log; reaching its bound is no
// error.
func (w *Writer) Close() error {
	w.end(EndClosed)
	w.Flush()
	if err := w.file.Close(); err != nil && w.failed == nil {
		w.failed = fmt.Errorf("dispatch log: %w", err)
	}
	return w.failed
}
