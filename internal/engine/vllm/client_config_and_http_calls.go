// Package vllm is the client of one vLLM engine: completions for training, LoRA adapters, health and metrics. It trusts
// nothing that the engine says: an answer is complete, from the right model and consistent, or it is a typed failure.
// It chooses no engine, retries nothing and keeps no state beyond its connections.
//
// Completions travel through go-openai. Its HTTP openAITransport adds the fields that the library lacks, and reads the
// answer. A completion is verified against its request (verify_completion.go) before it is returned. All other routes
// are plain HTTP. Every call has a total deadline: an engine that trickles its answer does not extend it. Start reading
// at Client, then Complete, then the codes in classify_engine_errors.go, on which callers branch.
package vllm

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/millrace/millrace/internal/rollout"

	openai "github.com/sashabaranov/go-openai"
	"golang.org/x/sync/semaphore"
)

// Bounds that hold where Config says nothing.
const (
	defaultCompletionTimeout = 10 * time.Minute
	defaultControlTimeout    = 10 * time.Second
	defaultLoadTimeout       = 2 * time.Minute

	maxAnswerBytes = 32 << 20 // of one completion, and of all that are being read from one engine at a time
	maxErrorBytes  = 64 << 10
	maxHeaderBytes = 64 << 10
)

// Config says how to reach one engine.
type Config struct {
	BaseURL string // http://host:port; a trailing /v1 is accepted and dropped
	// Key is asked for the API key before each call; empty: none is sent. nil: never any.
	Key func() string
	// Headers, if set, adds headers to a completion's request, such as the trace that its context belongs to.
	Headers func(context.Context, http.Header)
	// HTTPClient carries every call; nil makes one with NewTransport, Control and TLS. Its own Timeout, if set,
	// applies on top of the deadlines below.
	HTTPClient *http.Client
	// Control, if set, is asked before each connection, with the address that the engine's name was resolved to.
	Control func(network, address string, c syscall.RawConn) error
	TLS     *tls.Config // of https addresses; nil: the system's

	// IgnoreEOS makes every completion go on to its max_tokens, for measurements: its tokens are useless for training.
	IgnoreEOS bool

	CompletionTimeout time.Duration // of a completion whose request names none; 0: 10 minutes
	ControlTimeout    time.Duration // of health, version, models, metrics and unload; 0: 10 seconds
	LoadTimeout       time.Duration // of loading an adapter; 0: 2 minutes
}

// Client talks to one engine. It is safe for concurrent use.
type Client struct {
	cfg    Config
	root   string // the engine's address, without /v1 and without a trailing slash
	http   *http.Client
	openai *openai.Client
	room   *semaphore.Weighted // bytes of answers that are being read from this engine
}

// New checks the address and makes a client. It does not connect.
func New(cfg Config) (*Client, error) {
	root := strings.TrimSuffix(strings.TrimRight(cfg.BaseURL, "/"), "/v1")
	u, err := url.Parse(root)
	if err != nil {
		return nil, fmt.Errorf("engine address: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("engine address %q: want http://host:port", cfg.BaseURL)
	}
	cfg.CompletionTimeout = cmp.Or(cfg.CompletionTimeout, defaultCompletionTimeout)
	cfg.ControlTimeout = cmp.Or(cfg.ControlTimeout, defaultControlTimeout)
	cfg.LoadTimeout = cmp.Or(cfg.LoadTimeout, defaultLoadTimeout)
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = &http.Client{Transport: newTransport(cfg.Control, cfg.TLS), CheckRedirect: refuseRedirect}
	}
	if cfg.Key == nil {
		cfg.Key = func() string { return "" }
	}
	conf := openai.DefaultConfig("") // the transport adds the key
	conf.BaseURL = root + "/v1"
	room := semaphore.NewWeighted(maxAnswerBytes)
	conf.HTTPClient = openAITransport{cfg.HTTPClient, cfg.Key, cfg.Headers, room}
	return &Client{cfg: cfg, root: root, http: cfg.HTTPClient, openai: openai.NewClientWithConfig(conf), room: room}, nil
}

// Close drops the idle connections. The client stays usable.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// newTransport is fit for an engine that closes idle connections after five seconds and serves hundreds of requests at
// once.
func newTransport(control func(string, string, syscall.RawConn) error, secured *tls.Config) *http.Transport {
	dialer := net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second, Control: control}
	return &http.Transport{
		// Engines are on a private network: no proxy is asked for from the environment.
		Proxy:       nil,
		DialContext: dialer.DialContext,
		// Below VLLM_HTTP_TIMEOUT_KEEP_ALIVE (5 s), so that no request races a closing server.
		IdleConnTimeout:     4 * time.Second,
		MaxIdleConnsPerHost: 1024,
		TLSHandshakeTimeout: 5 * time.Second,
		TLSClientConfig:     secured,
		// Answers are never decompressed: a compressed one is not JSON, and so cannot swell.
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}

// refuseRedirect hands a redirect to the caller as an answer: an engine never sends one, and a
// completion must not travel to where it was not addressed.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func (c *Client) wrap(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	return failure(ctx, what, err)
}

func (c *Client) getJSON(ctx context.Context, path string, limit int64, v any) error {
	body, err := c.get(ctx, path, limit)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return rollout.Fail(rollout.Permanent, rollout.CodeNotAnEngine, fmt.Errorf("GET %s: %w", path, unreadable(err)))
	}
	return nil
}

func (c *Client) get(ctx context.Context, path string, limit int64) ([]byte, error) {
	var body []byte
	err := c.read(ctx, path, func(req *http.Request) (err error) {
		body, err = c.do(req, limit)
		return err
	})
	return body, err
}

// read makes a GET call, and gives its failure a code and words.
func (c *Client) read(ctx context.Context, path string, call func(*http.Request) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.ControlTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.root+path, nil)
	if err != nil {
		return err
	}
	err = c.wrap(ctx, "GET "+path, call(req))
	var silent *noAnswer
	if rollout.CodeOf(err) == rollout.CodeTimeout && errors.As(err, &silent) {
		// To be silent and to be unreachable is the same: see noAnswer.
		return rollout.Fail(rollout.Retryable, rollout.CodeEngineGone, &noAnswer{"GET " + path + ": no answer", silent.cause})
	}
	return err
}

// post sends v as JSON and answers at most limit bytes.
func (c *Client) post(ctx context.Context, path string, v any, limit int64) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.root+path, bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return c.do(req, limit)
}

func (c *Client) do(req *http.Request, limit int64) ([]byte, error) {
	resp, err := c.send(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err == nil && int64(len(body)) > limit {
		return nil, rollout.Fail(rollout.Retryable, rollout.CodeBadAnswer,
			fmt.Errorf("%s %s: more than %d bytes", req.Method, req.URL.Path, limit))
	}
	return body, err
}

// send makes a call and returns its answer, if the status is 200.
func (c *Client) send(req *http.Request) (*http.Response, error) {
	authorise(req, c.cfg.Key())
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, statusError(req, resp)
	}
	return resp, nil
}
