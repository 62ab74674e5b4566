// Package vllm is the client of one vLLM engine: completions for training, LoRA adapters,
// health and metrics. It trusts nothing that the engine says: an answer is complete, from the
// right model and consistent, or it is a typed failure. It chooses no engine, retries nothing
// and keeps no state beyond its connections.
//
// Completions travel through go-openai; what that library cannot say or hear is added and read
// in its HTTP hook. All other routes are plain HTTP. Every call has a total deadline: an
// engine that trickles its answer does not extend it. Start reading at Client, then Complete,
// then the codes in failure.go, which are what callers branch on.
package vllm

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	openai "github.com/sashabaranov/go-openai"
)

// Bounds that hold where Config says nothing.
const (
	defaultCompletionTimeout = 10 * time.Minute
	defaultControlTimeout    = 10 * time.Second
	defaultLoadTimeout       = 2 * time.Minute

	maxAnswerBytes = 32 << 20 // of one completion; a million token ids with logprobs are about 20 MB
	maxErrorBytes  = 64 << 10
)

// Config says how to reach one engine.
type Config struct {
	BaseURL string // http://host:port; a trailing /v1 is accepted and dropped
	APIKey  string // empty: the engine asks for none
	// HTTPClient carries every call; nil makes one with NewTransport. Its own Timeout, if set,
	// applies on top of the deadlines below.
	HTTPClient *http.Client

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
	setDefault(&cfg.CompletionTimeout, defaultCompletionTimeout)
	setDefault(&cfg.ControlTimeout, defaultControlTimeout)
	setDefault(&cfg.LoadTimeout, defaultLoadTimeout)
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = &http.Client{Transport: NewTransport(), CheckRedirect: refuseRedirect}
	}
	conf := openai.DefaultConfig(cfg.APIKey)
	conf.BaseURL = root + "/v1"
	conf.HTTPClient = hook{cfg.HTTPClient}
	return &Client{cfg: cfg, root: root, http: cfg.HTTPClient, openai: openai.NewClientWithConfig(conf)}, nil
}

// Close drops the idle connections. The client stays usable.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// NewTransport makes a transport fit for an engine that closes idle connections after five
// seconds and serves hundreds of requests at once.
func NewTransport() *http.Transport {
	dialer := net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Transport{
		// Engines are on a private network: no proxy is asked for from the environment.
		Proxy:       nil,
		DialContext: dialer.DialContext,
		// Below VLLM_HTTP_TIMEOUT_KEEP_ALIVE (5 s), so that no request races a closing server.
		IdleConnTimeout:     4 * time.Second,
		MaxIdleConnsPerHost: 1024,
		TLSHandshakeTimeout: 5 * time.Second,
		DisableCompression:  true,
	}
}

// refuseRedirect hands a redirect to the caller as an answer: an engine never sends one, and a
// completion must not travel to where it was not addressed.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func setDefault(d *time.Duration, value time.Duration) {
	if *d <= 0 {
		*d = value
	}
}
