// Package progressline shows that something takes time, and how far it is: on a terminal one line that is painted over,
// with a bar where it is known how much there is to do; elsewhere a line now and then. It is for what takes seconds and
// more; what is over sooner shows nothing. Start reading at Start.
package progressline

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-isatty"

	"github.com/millrace/millrace/internal/kit/termtext"
)

const (
	// quiet is how long a wait takes before anything is shown of it on a terminal, and every how long it moves.
	quiet, moves = 500 * time.Millisecond, 150 * time.Millisecond
	// linesEvery is the time between two lines when the output is no terminal.
	linesEvery = 10 * time.Second
	// barWidth is the characters of a bar.
	barWidth = 24
	// eraseLine takes away what is painted.
	eraseLine = "\r\x1b[K"
)

// Line is a wait that is shown. Its methods may be called concurrently.
type Line struct {
	w        io.Writer
	terminal bool
	began    time.Time

	mu       sync.Mutex
	state    State
	painted  bool
	lastLine time.Time
	stop     chan struct{} // closed by End
	ended    chan struct{} // closed when the painter has
}

// State is how far something is.
type State struct {
	What     string // such as "planning"
	Done, Of int64  // Of 0: the total is not known
	Unit     string // such as "settings"; may be empty
	Note     string // what else is known
}

// Start begins to show a wait on w, until End.
func Start(w io.Writer, what string) *Line {
	f, isFile := w.(*os.File)
	terminal := isFile && isatty.IsTerminal(f.Fd()) && os.Getenv("TERM") != "dumb"
	now := time.Now()
	l := &Line{w: w, terminal: terminal, began: now, lastLine: now, state: State{What: what}, stop: make(chan struct{}),
		ended: make(chan struct{})}
	if !terminal {
		close(l.ended)
		return l
	}
	go l.paint()
	return l
}

// At says how far it is.
func (l *Line) At(done, of int64, unit, note string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.Done, l.state.Of, l.state.Unit, l.state.Note = done, of, unit, note
	if now := time.Now(); !l.terminal && now.Sub(l.lastLine) >= linesEvery && (of == 0 || done < of) {
		l.lastLine = now
		_, _ = fmt.Fprintln(l.w, termtext.Line(l.state.Text(now.Sub(l.began)))) // it is only shown
	}
}

// Say writes lines that stay, above the line that is painted over.
func (l *Line) Say(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear := ""
	if l.painted {
		clear = eraseLine
	}
	_, _ = io.WriteString(l.w, clear+termtext.Block(text)+"\n") // it is only shown
}

// End ends the wait and takes its line away. It may be called again.
func (l *Line) End() {
	l.mu.Lock()
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.mu.Unlock()
	<-l.ended
}

// paint paints the line until it is ended.
func (l *Line) paint() {
	defer close(l.ended)
	ticker := time.NewTicker(moves)
	defer ticker.Stop()
	for frame := 0; ; frame++ {
		select {
		case <-l.stop:
			if l.painted {
				_, _ = io.WriteString(l.w, eraseLine) // a terminal that is gone needs no clearing
			}
			return
		case now := <-ticker.C:
			if passed := now.Sub(l.began); passed >= quiet {
				l.mu.Lock()
				l.painted = true
				// a line that is too long is cut, not wrapped, or it could not be painted over
				_, _ = io.WriteString(l.w, "\x1b[?7l\r"+Spin(frame)+" "+termtext.Line(l.state.Text(passed))+"\x1b[K\x1b[?7h")
				l.mu.Unlock()
			}
		}
	}
}

// Spin is a sign that something goes on.
func Spin(frame int) string { return string(`|/-\`[frame%4]) }

// Text is the state in words after so long: a bar and what is left where that is known, else how long it took so far.
func (s State) Text(passed time.Duration) string {
	text := s.What
	if s.Of > 0 {
		text += " " + Bar(s.Done, s.Of, barWidth) + fmt.Sprintf(" %d of %d", s.Done, s.Of)
		if s.Unit != "" {
			text += " " + s.Unit
		}
	}
	if s.Note != "" {
		text += ", " + s.Note
	}
	if s.Of > 0 && s.Done > 0 && s.Done < s.Of {
		left := time.Duration(float64(passed) * float64(s.Of-s.Done) / float64(s.Done))
		return text + "; about " + left.Round(time.Second).String() + " left"
	}
	return text + "; " + passed.Round(time.Second).String()
}

// Bar is how much of something is done, as characters.
func Bar(done, of int64, width int) string {
	full := 0
	if of > 0 {
		full = max(0, min(width, int(float64(done)/float64(of)*float64(width))))
	}
	return "[" + strings.Repeat("#", full) + strings.Repeat("-", width-full) + "]"
}
