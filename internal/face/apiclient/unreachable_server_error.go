package apiclient

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Unreachable is a service that does not answer at all.
type Unreachable struct {
	text string
	err  error
}

func (e *Unreachable) Error() string { return e.text }

func (e *Unreachable) Unwrap() error { return e.err }

// unreachable explains a server that did not answer for so long. An interruption stays what it is.
func (c *Client) unreachable(err error, waited time.Duration) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	var cause *url.Error
	if errors.As(err, &cause) {
		err = cause.Err
	}
	why := err.Error()
	if errors.Is(err, context.DeadlineExceeded) {
		why = fmt.Sprintf("no answer within %v", waited)
	}
	advice := "start one with: millrace dev (or millrace server), or name another with --server or MILLRACE_SERVER"
	var authority x509.UnknownAuthorityError
	switch {
	case errors.Is(err, http.ErrSchemeMismatch):
		advice = "it speaks http: name it with http:// instead of https://, in --server or MILLRACE_SERVER"
	case errors.As(err, &authority):
		advice = "its certificate is signed by nobody that this machine trusts; MILLRACE_CA_FILE names authorities"
	}
	text := fmt.Sprintf("no millrace server answers at %s: %s\n  %s", c.server, why, advice)
	return &Unreachable{text, err}
}
