package panics_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/kit/panics"
)

func TestAPanicIsAnErrorThatIsLoggedAndCounted(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	counted := ""
	w := panics.Watch{Log: slog.New(slog.NewTextHandler(&log, nil)), Count: func(in string) { counted += in }}
	var nothing []int
	err := w.Catch("diagnosis", func() error { _ = nothing[3]; return nil })
	if !errors.Is(err, panics.ErrBroken) || strings.Contains(err.Error(), "index out of range") {
		t.Errorf("the error is %v", err)
	}
	for _, want := range []string{"in=diagnosis", "index out of range", "panics_test.go"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in the log: %s", want, log.String())
		}
	}
	if counted != "diagnosis" {
		t.Errorf("counted %q", counted)
	}
	failed := errors.New("failed")
	if err := w.Catch("diagnosis", func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("the error is %v", err)
	}
}
