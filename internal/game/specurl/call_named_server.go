// Package specurl reaches servers that a run's spec names by URL. Whoever writes specs must not explore networks with
// them: a connection is made only where the service's configuration allows its address, and redirects are not followed.
// Start reading at Server.
package specurl

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// Connections says how the service's configuration has a URL reached that a run's spec names.
type Connections interface {
	// DialNamed refuses a URL, or makes the Control of its connections, which may refuse an address.
	DialNamed(url string) (func(network, address string, c syscall.RawConn) error, error)
	NamedKey(url string) string // API key that is meant for the URL; empty: none
	TLS(url string) *tls.Config
}

// Bounds of what is asked of one server.
const (
	DialPatience = 10 * time.Second // until a connection is made
	mostIdle     = 32               // connections that are kept
	mostBytes    = 1 << 20          // of an answer
)

// ErrDenied is why a connection is not made; it comes with CodeEngineAddress.
var ErrDenied = errors.New("its host has an address that engine_urls does not allow")

// ErrTooLarge is an answer of more bytes than are read.
var ErrTooLarge = fmt.Errorf("an answer of more than %d bytes", mostBytes)

// Unheard is the error of a call without an answer. Its cause would tell who may name a URL about networks: it is for
// the log alone.
type Unheard struct{ Cause error }

func (e *Unheard) Error() string { return "no connection, or it broke before an answer came" }

// Check reports why a text is no URL that a spec may name.
func Check(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return errors.New("is no URL such as https://verifier.example.com/check")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("has too much: only scheme, host, port and path belong into it; a key stands in the workers' " +
			"engine_urls.keys_file")
	}
	return nil
}

// Server is what a URL names. It is safe for concurrent use.
type Server struct {
	URL  string
	HTTP *http.Client
	Key  func() string // that is meant for the URL; empty: none
}

// New makes a Server; it fails where the configuration refuses the URL. Without connections nothing is refused, and
// there is no key.
func New(conns Connections, url string) (*Server, error) {
	dialer := &net.Dialer{Timeout: DialPatience}
	transport := &http.Transport{DialContext: dialer.DialContext, TLSHandshakeTimeout: DialPatience,
		MaxIdleConnsPerHost: mostIdle, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
		DisableCompression: true} // what is not unpacked cannot swell
	s := &Server{URL: url, Key: func() string { return "" }, HTTP: &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	if conns == nil {
		return s, nil
	}
	control, err := conns.DialNamed(url)
	if err != nil {
		return nil, err
	}
	dialer.Control = func(network, address string, c syscall.RawConn) error {
		if control(network, address, c) != nil {
			return rollout.Fail(rollout.Permanent, rollout.CodeEngineAddress, ErrDenied)
		}
		return nil
	}
	transport.TLSClientConfig = conns.TLS(url)
	s.Key = func() string { return conns.NamedKey(url) }
	return s, nil
}

// Post sends a JSON document to a path below the URL, and reads what is answered, whatever its status. Errors: a
// *rollout.Failure where the address is refused, ErrTooLarge, and Unheard for all else.
func (s *Server) Post(ctx context.Context, path string, document any) (*http.Response, []byte, error) {
	text, err := json.Marshal(document)
	if err != nil {
		return nil, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, bytes.NewReader(text))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if key := s.Key(); key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := s.HTTP.Do(req)
	var body []byte
	if err == nil {
		defer func() { _ = resp.Body.Close() }()
		body, err = io.ReadAll(io.LimitReader(resp.Body, mostBytes+1))
	}
	var denied *rollout.Failure
	switch {
	case errors.As(err, &denied):
		return nil, nil, denied
	case err != nil:
		return nil, nil, &Unheard{err}
	case len(body) > mostBytes:
		return nil, nil, ErrTooLarge
	}
	return resp, body, nil
}

// Waits reports whether the same request may be answered later.
func Waits(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status >= 500
}
