// Package pprofserver serves the Go runtime's profiles of this process over HTTP, on loopback alone: they reveal names,
// paths and the contents of memory, and each costs processor time. Start reading at Serve.
package pprofserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"time"
)

// CheckAddress reports why profiles are not served at an address: anything but host:port of loopback.
func CheckAddress(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q is not host:port: %w", address, err)
	}
	if host == "localhost" {
		return nil
	}
	if ip, err := netip.ParseAddr(host); err != nil || !ip.Unmap().IsLoopback() {
		return fmt.Errorf("%q is not on loopback: profiles show what is in memory and ask for no token; use "+
			"127.0.0.1:PORT, and ssh -L to read them from elsewhere", address)
	}
	return nil
}

// readTimeout bounds the reading of a request. A profile takes as many seconds as are asked for.
const readTimeout = 5 * time.Second

// Serve answers at an address of loopback until ctx is done.
func Serve(ctx context.Context, address string, log *slog.Logger) error {
	if err := CheckAddress(address); err != nil {
		return fmt.Errorf("profiles: %w", err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("profiles: listen: %w", err)
	}
	if at, ok := l.Addr().(*net.TCPAddr); !ok || !at.IP.IsLoopback() { // what "localhost" was resolved to
		_ = l.Close()
		return fmt.Errorf("profiles: %s is %s here, which is not on loopback", address, l.Addr())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // a profile that is being made is not worth waiting for
	defer stop()
	log.Info("answering profiles", "address", "http://"+l.Addr().String()+"/debug/pprof/")
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("answer profiles: %w", err)
	}
	return nil
}
