package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/millrace/millrace/internal/face/access"
	"github.com/millrace/millrace/internal/face/apiclient"
)

// caller calls the API within the process, in the name and from the address of a visitor.
type caller struct {
	api    http.Handler
	of     *http.Request
	holder access.Hash // the token of the visitor's session
	bearer string      // a token that is being shown; empty: holder's
}

// statusOf is how a failure is answered.
func statusOf(err error) (status int, text string) {
	var p *apiclient.Problem
	switch {
	case errors.As(err, &p):
		return p.Status, p.Text()
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout, "the service did not answer in time"
	}
	return http.StatusInternalServerError, "the page could not be made; the server's log has the error"
}

// get reads a document into what is given, unless that is nil.
func (c caller) get(ctx context.Context, path string, into any) error {
	return c.do(ctx, http.MethodGet, path, nil, into)
}

// do makes a call with a JSON body, if there is one. A refusal is a *Problem.
func (c caller) do(ctx context.Context, method, path string, body, into any) error {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return fmt.Errorf("ask the API: %w", err)
		}
	}
	answer, err := c.ask(ctx, method, path, data)
	if err != nil {
		return err
	}
	if answer.status >= http.StatusBadRequest {
		p := &apiclient.Problem{Status: answer.status}
		if json.Unmarshal(answer.body.Bytes(), p) != nil || p.Detail == "" {
			p.Detail = fmt.Sprintf("the API answered %d", answer.status)
		}
		return p
	}
	if into == nil || answer.body.Len() == 0 {
		return nil
	}
	if err := json.Unmarshal(answer.body.Bytes(), into); err != nil {
		return fmt.Errorf("read the API's answer to %s: %w", path, err)
	}
	return nil
}

func (c caller) ask(ctx context.Context, method, path string, body []byte) (*kept, error) {
	req, err := c.request(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	answer := &kept{header: http.Header{}}
	c.api.ServeHTTP(answer, req)
	return answer, ctx.Err()
}

// request is a call of the API as the visitor would make it.
func (c caller) request(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	to, err := url.Parse(path)
	if err != nil {
		return nil, fmt.Errorf("ask the API: %w", err)
	}
	req := (&http.Request{
		Method: method, URL: to, Host: c.of.Host, RemoteAddr: c.of.RemoteAddr, TLS: c.of.TLS, RequestURI: path,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Accept": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}).WithContext(ctx)
	for _, name := range []string{"X-Forwarded-For", "Traceparent", "X-Request-Id"} {
		if values := c.of.Header.Values(name); len(values) > 0 {
			req.Header[name] = values
		}
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.bearer != "" {
		req.Header.Set("Authorization", "Bearer "+c.bearer)
		return req, nil
	}
	return req.WithContext(access.AsHolder(req.Context(), c.holder)), nil
}

// kept is an answer in memory.
type kept struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (k *kept) Header() http.Header { return k.header }

func (k *kept) WriteHeader(status int) {
	k.status = cmp.Or(k.status, status)
}

func (k *kept) Write(b []byte) (int, error) {
	k.WriteHeader(http.StatusOK)
	return k.body.Write(b)
}
