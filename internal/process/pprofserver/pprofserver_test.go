package pprofserver_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/kit/freeport"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/process/pprofserver"
)

func TestOnlyLoopbackIsServed(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{
		"127.0.0.1:6060": true, "[::1]:6060": true, "localhost:6060": true, "127.8.8.8:0": true,
		":6060": false, "0.0.0.0:6060": false, "[::]:6060": false, "10.0.0.3:6060": false, "example.com:6060": false,
		"127.0.0.1": false, "": false,
	} {
		if err := pprofserver.CheckAddress(address); (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
	}
	if err := pprofserver.Serve(t.Context(), "0.0.0.0:0", slog.New(slog.DiscardHandler)); err == nil {
		t.Error("served to everybody")
	}
}

func TestProfilesAreAnswered(t *testing.T) {
	t.Parallel()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- pprofserver.Serve(ctx, address, slog.New(slog.DiscardHandler)) }()
	var body []byte
	err = retry.Within(t.Context(), time.Minute, 10*time.Millisecond, func(context.Context) error {
		resp, err := http.Get("http://" + address + "/debug/pprof/goroutine?debug=1")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err = io.ReadAll(resp.Body)
		return err
	})
	if err != nil || !strings.Contains(string(body), "goroutine profile:") {
		t.Errorf("answered %.80q, %v", body, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
