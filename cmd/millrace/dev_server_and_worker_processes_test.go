package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A child that ends as often as it is started is given up, with what it said: its log is removed with all the rest.
func TestChildThatCannotStartIsGivenUp(t *testing.T) {
	t.Parallel()
	broken := script(t, "temporal", "echo no such database >&2\nexit 1\n")
	ctx, cancel := context.WithTimeout(t.Context(), awaitFor)
	defer cancel()
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{"dev", "--listen", "127.0.0.1:0", "--temporal-bin", broken}, strings.NewReader(""),
		&stdout, &stderr)
	if code != 1 || !strings.Contains(stderr.String(), "temporal does not come up") ||
		!strings.Contains(stderr.String(), "no such database") {
		t.Errorf("exit code %d, says %s", code, stderr.String())
	}
}

// Ctrl-C is no fault: the exit code tells, and nothing is said.
func TestInterruptIsQuiet(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		interrupt()
		<-r.Context().Done()
	}))
	defer server.Close()
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{"run", "list", "--server", server.URL}, strings.NewReader(""), &stdout, &stderr)
	if code != 130 || stderr.Len() > 0 {
		t.Errorf("exit code %d, says %q", code, stderr.String())
	}
}

// A service that is named and does not answer is worth another try, and the exit code says so.
func TestDevWithoutTheNamedTemporal(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{"dev", "--listen", "127.0.0.1:0", "--temporal", "127.0.0.1:1"}, strings.NewReader(""),
		&stdout, &stderr)
	if code != 5 || !strings.Contains(stderr.String(), "temporal at 127.0.0.1:1 does not answer") {
		t.Errorf("exit code %d, says %q", code, stderr.String())
	}
}

// An address that was asked for is taken or refused, and a folder that is not there yet is made.
func TestDevTakesWhatItIsTold(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := filepath.Join(t.TempDir(), "new")
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--listen", taken.Addr().String()}, 2, "address already in use; leave it out"},
		{[]string{"--data-dir", dir, "--redis", "redis://127.0.0.1:1", "--temporal", "127.0.0.1:1"}, 5, "does not answer"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append([]string{"dev"}, tt.args...), strings.NewReader(""), &stdout, &stderr)
		if code != tt.code || !strings.Contains(stderr.String(), tt.says) {
			t.Errorf("%v: exit code %d, says %q", tt.args, code, stderr.String())
		}
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
}

// A terminal that is closed ends what runs in it as Ctrl-C does, with everything put away.
func TestClosedTerminalEndsDev(t *testing.T) {
	t.Parallel()
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("these tests run under nohup")
	}
	waits := script(t, "temporal", "exec sleep 600\n")
	p := millrace(t, "dev", "--listen", "127.0.0.1:0", "--temporal-bin", waits)
	p.await("starting the Temporal dev server", 0)
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if code := p.exit(); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	if left := descendants(t, p.cmd.Process.Pid); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
