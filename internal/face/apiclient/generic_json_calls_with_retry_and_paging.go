// Package apiclient calls the HTTP API of one server. It makes each call once: callers decide what is worth repeating.
// Start reading at Client.
package apiclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/kit/retry"
)

// DefaultServer is where a server listens unless told otherwise.
const DefaultServer = "http://127.0.0.1:8700"

const (
	// callTimeout bounds a call as a whole, where its caller sets no other bound.
	callTimeout = time.Minute
	// copyTimeout bounds the reading of one large document.
	copyTimeout = 30 * time.Minute
	// maxAnswer bounds what is read of an answer: a thousand step records with their timelines are a few MB.
	maxAnswer = 256 << 20
	// maxRefusal bounds what is read of an answer that says no.
	maxRefusal = 1 << 20
)

// Client calls one server. It may be used concurrently.
type Client struct {
	server string
	token  string
	http   *http.Client
	tries  int // at a call that is refused for now; 0 is 1
}

// patientTries is how often a patient client makes a call that the server refuses for now.
const patientTries = 30

// Patient is the client for long exports: a server under load refuses calls and says so, and is asked again, but not
// for good.
func (c *Client) Patient() *Client {
	patient := *c
	patient.tries = patientTries
	return &patient
}

// New makes a client of the server at an address such as http://127.0.0.1:8700. An empty token sends none.
func New(server, token string, h *http.Client) (*Client, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("server %q: want a URL such as %s", server, DefaultServer)
	}
	if h == nil {
		h = http.DefaultClient
	}
	return &Client{server: strings.TrimRight(server, "/"), token: token, http: h}, nil
}

// Server is the address of the server.
func (c *Client) Server() string { return c.server }

// Answer is a document of the server, as it came.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Refusal is the problem that an answer states; nil: it states none.
func (a Answer) Refusal() *Problem {
	if a.Status < http.StatusBadRequest {
		return nil
	}
	return readProblem(a.Status, a.Header, a.Body)
}

// RetryAfter is how long the server asks a refused caller to wait.
func (a Answer) RetryAfter() time.Duration {
	seconds, err := strconv.Atoi(a.Header.Get("Retry-After"))
	if err != nil {
		return time.Second
	}
	return time.Duration(max(seconds, 1)) * time.Second
}

// Ask makes one call with a JSON body, if there is one. A refusal is an answer; an error is that there was none.
func (c *Client) Ask(ctx context.Context, method, path string, body any) (Answer, error) {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return Answer{}, fmt.Errorf("write the request: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := c.do(ctx, method, path, "application/json", data)
	if err != nil {
		return Answer{}, err
	}
	return c.readAll(resp)
}

// Call makes one call. The body, if any, is of the given media type. A refusal is a *Problem.
func (c *Client) Call(ctx context.Context, method, path, mediaType string, body []byte) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := c.Open(ctx, method, path, mediaType, body)
	if err != nil {
		return Answer{}, err
	}
	return c.readAll(resp)
}

func (c *Client) readAll(resp *http.Response) (Answer, error) {
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return Answer{}, c.unreachable(err, callTimeout)
	}
	return Answer{resp.StatusCode, resp.Header, data}, nil
}

// Copy reads a document of any size and writes it as it comes. A refusal writes nothing.
func (c *Client) Copy(ctx context.Context, path string, to io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, copyTimeout)
	defer cancel()
	resp, err := c.Open(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(to, resp.Body); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	return nil
}

// Open makes a call and answers what is not a refusal; the caller bounds the call and closes the body.
func (c *Client) Open(ctx context.Context, method, path, mediaType string, body []byte) (*http.Response, error) {
	for try := 1; ; try++ {
		resp, err := c.open(ctx, method, path, mediaType, body)
		var p *Problem
		refusedForNow := errors.As(err, &p) &&
			(p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable)
		if !refusedForNow || try >= c.tries {
			return resp, err
		}
		if err := retry.Pause(ctx, time.Second); err != nil {
			return nil, err
		}
	}
}

func (c *Client) open(ctx context.Context, method, path, mediaType string, body []byte) (*http.Response, error) {
	resp, err := c.do(ctx, method, path, mediaType, body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < http.StatusBadRequest {
		return resp, nil
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil {
		return nil, c.unreachable(err, callTimeout)
	}
	return nil, c.explained(readProblem(resp.StatusCode, resp.Header, data), resp.Status)
}

func (c *Client) do(ctx context.Context, method, path, mediaType string, body []byte) (*http.Response, error) {
	began := time.Now()
	req, err := http.NewRequestWithContext(ctx, method, c.server+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", path, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", mediaType)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	req.Header.Set("Accept", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(err, time.Since(began).Round(time.Second))
	}
	return resp, nil
}

// Read decodes what Call answers into T.
func Read[T any](a Answer, err error) (T, Answer, error) {
	var v T
	if err != nil {
		return v, a, err
	}
	if err := json.Unmarshal(a.Body, &v); err != nil {
		return v, a, fmt.Errorf("read the server's answer: %w", err)
	}
	return v, a, nil
}

// Get reads a document.
func Get[T any](ctx context.Context, c *Client, path string) (T, Answer, error) {
	return Read[T](c.Call(ctx, http.MethodGet, path, "", nil))
}

// Send sends a document, and reads the answer.
func Send[T any](ctx context.Context, c *Client, method, path string, body any) (T, Answer, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return Read[T](Answer{}, fmt.Errorf("write the request: %w", err))
	}
	return Read[T](c.Call(ctx, method, path, "application/json", data))
}

// Pages reads a list that comes in pages. next is where the page after one begins, which goes into the query under
// param; empty, or where the page began itself: there is none.
func Pages[T any](ctx context.Context, c *Client, path string, query url.Values, param string,
	next func(T) string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		query := maps.Clone(query)
		if query == nil {
			query = url.Values{}
		}
		for {
			at := path
			if len(query) > 0 {
				at += "?" + query.Encode()
			}
			page, _, err := Get[T](ctx, c, at)
			if !yield(page, err) || err != nil {
				return
			}
			following := next(page)
			if following == "" || following == query.Get(param) {
				return
			}
			query.Set(param, following)
			query.Del("since") // it says where the first page begins
		}
	}
}
