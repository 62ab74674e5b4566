package progressline

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestText(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		state  State
		passed time.Duration
		want   string
	}{
		{State{What: "starting temporal"}, 3 * time.Second, "starting temporal; 3s"},
		{State{What: "planning", Done: 6, Of: 24, Unit: "settings"}, 10 * time.Second,
			"planning [######------------------] 6 of 24 settings; about 30s left"},
		{State{What: "planning", Of: 24}, time.Second, "planning [------------------------] 0 of 24; 1s"},
		{State{What: "x", Done: 9, Of: 3, Note: "v3"}, time.Second, "x [########################] 9 of 3, v3; 1s"},
	} {
		if got := tt.state.Text(tt.passed); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// TestLinesWhereNobodyWatches: a log gets a line now and then, and none that moves a cursor.
func TestLinesWhereNobodyWatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		l := Start(&b, "replaying\x1b[2J")
		for i := range int64(100) {
			time.Sleep(time.Second)
			l.At(i+1, 100, "games", "")
		}
		l.End()
		l.End()
		lines := strings.Split(strings.TrimSpace(b.String()), "\n")
		if len(lines) != 9 || strings.ContainsAny(b.String(), "\x1b\r") ||
			!strings.HasPrefix(lines[0], "replaying␛[2J [##----------------------] 10 of 100 games; about 1m30s left") {
			t.Errorf("%d lines: %q", len(lines), lines)
		}
	})
}

// screen is what was written to a terminal.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// TestOnATerminal: the line is painted over, and gone at the end.
func TestOnATerminal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b screen
		l := &Line{w: &b, terminal: true, began: time.Now(), state: State{What: "waiting"}, stop: make(chan struct{}),
			ended: make(chan struct{})}
		go l.paint()
		time.Sleep(quiet / 2)
		synctest.Wait()
		if b.String() != "" {
			t.Errorf("something is shown of what may be over soon: %q", b.String())
		}
		time.Sleep(time.Second)
		l.End()
		if text := b.String(); strings.Contains(text, "\n") || !strings.HasSuffix(text, "\r\x1b[K") ||
			!strings.Contains(text, "waiting") {
			t.Errorf("%q", text)
		}
	})
}
