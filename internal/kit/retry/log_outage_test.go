package retry

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestReport asks a service every second: what its log says of that, and when.
func TestReport(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	seconds := func(n int, err error) []error {
		answers := make([]error, n)
		for i := range answers {
			answers[i] = err
		}
		return answers
	}
	for _, tt := range []struct {
		name    string
		answers []error
		want    []string
	}{
		{"it answers", seconds(3, nil), nil},
		{"it does not, for a moment", append(seconds(1, refused), nil, nil), []string{
			`level=WARN msg="no answer" address=a error=refused`,
			`level=INFO msg="answers again" address=a unavailable_for=1s`,
		}},
		{"it does not, for long", append(seconds(100, refused), nil), []string{
			`level=WARN msg="no answer" address=a error=refused`,
			`level=WARN msg="no answer" address=a unavailable_for=10s error=refused`,
			`level=WARN msg="no answer" address=a unavailable_for=30s error=refused`,
			`level=WARN msg="no answer" address=a unavailable_for=1m10s error=refused`,
			`level=INFO msg="answers again" address=a unavailable_for=1m40s`,
		}},
		{"twice", append(append(seconds(31, refused), nil), refused, nil), []string{
			`level=WARN msg="no answer" address=a error=refused`,
			`level=WARN msg="no answer" address=a unavailable_for=10s error=refused`,
			`level=WARN msg="no answer" address=a unavailable_for=30s error=refused`,
			`level=INFO msg="answers again" address=a unavailable_for=31s`,
			`level=WARN msg="no answer" address=a error=refused`,
			`level=INFO msg="answers again" address=a unavailable_for=1s`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, said := report("address", "a")
			at := time.Unix(1e9, 0)
			for _, err := range tt.answers {
				r.Note(at, err)
				at = at.Add(time.Second)
			}
			if got, want := said(), strings.Join(append(tt.want, ""), "\n"); got != want {
				t.Errorf("said\n%swant\n%s", got, want)
			}
		})
	}
}

// A day without the service is a hundred and some lines, not 86,400.
func TestRestsGrowToTenMinutes(t *testing.T) {
	t.Parallel()
	r, said := report()
	begun := time.Unix(1e9, 0)
	for at := begun; at.Before(begun.Add(24 * time.Hour)); at = at.Add(time.Second) {
		r.Note(at, errors.New("refused"))
	}
	if n := strings.Count(said(), "\n"); n < 144 || n > 150 {
		t.Errorf("%d lines", n)
	}
}

// report is one whose lines have no times.
func report(args ...any) (*Outage, func() string) {
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	return &Outage{Log: log.With(args...), Down: "no answer", Up: "answers again"}, said.String
}
