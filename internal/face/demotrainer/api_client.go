package demotrainer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// Deadlines and pauses of the client.
const (
	claimWait      = 30 * time.Second // one long poll
	claimTimeout   = 3 * time.Minute  // the poll and the transfer of the batch
	callTimeout    = time.Minute
	publishTimeout = 10 * time.Minute // engines load weights
	publishFor     = time.Hour        // while there is no engine that could
	firstPause     = 100 * time.Millisecond
	maxPause       = 3 * time.Second
)

// client speaks to the API server and keeps asking while that may help.
type client struct {
	api      *apiclient.Client
	run      string // its path
	patience time.Duration
	say      func(string, ...any)
}

func newClient(cfg Config) (*client, error) {
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = &http.Client{}
	}
	api, err := apiclient.New(cfg.Server, cfg.Token, cfg.HTTPClient)
	if err != nil {
		return nil, err
	}
	c := &client{
		api:      api,
		run:      apiclient.RunPath(rollout.RunName(cfg.Run)),
		patience: cfg.Patience,
		say:      func(format string, args ...any) { fmt.Fprintf(cfg.Log, format+"\n", args...) },
	}
	if c.patience <= 0 {
		c.patience = 2 * time.Minute
	}
	return c, nil
}

// attached is the answer to announcing a trainer process.
type attached struct {
	Generation    int64        `json:"generation"`
	NextStep      int64        `json:"next_step"`
	PolicyVersion int64        `json:"policy_version"`
	Spec          runspec.Spec `json:"spec"`
}

// attach announces this process. Answered twice, because the first answer was lost, the later generation counts.
func (c *client) attach(ctx context.Context, resumeFrom *int64) (attached, error) {
	body := struct {
		ResumeFrom *int64 `json:"resume_from,omitempty"`
	}{resumeFrom}
	var answer attached
	err := c.call(ctx, http.MethodPost, "/trainer", body, callTimeout, &answer)
	return answer, err
}

// claim waits for the batch of a step, however long it takes, and returns its body unread as soon as it arrives.
func (c *client) claim(ctx context.Context, step, generation int64) (io.ReadCloser, error) {
	query := url.Values{"wait": {claimWait.String()}, "generation": {strconv.FormatInt(generation, 10)}}
	path := fmt.Sprintf("/steps/%d/claim?%s", step, query.Encode())
	for {
		resp, err := c.persist(ctx, http.MethodPost, path, nil, claimTimeout)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode == http.StatusOK {
			return resp.Body, nil
		}
		resp.Body.Close()
		// 204: not ready yet. The server has waited already, unless it is stopping.
		if err := retry.Pause(ctx, firstPause); err != nil {
			return nil, err
		}
	}
}

// report is the record of a step.
type report struct {
	Generation int64              `json:"generation"`
	WallSec    float64            `json:"wall_seconds"`
	Phases     map[string]float64 `json:"phases"`
	Metrics    map[string]float64 `json:"metrics"`
}

func (c *client) record(ctx context.Context, step int64, r report) error {
	return c.call(ctx, http.MethodPut, fmt.Sprintf("/steps/%d", step), r, callTimeout, nil)
}

// publish returns when the version serves. A server that answers that no engine can load it now is asked for longer
// than one that does not answer: the weights are good, and nothing else is to be done.
func (c *client) publish(ctx context.Context, generation, version int64, path string) error {
	for began := time.Now(); ; {
		err := c.publishOnce(ctx, generation, version, path)
		var p *apiclient.Problem
		if !errors.As(err, &p) || !transient(err) || time.Since(began) > publishFor || ctx.Err() != nil {
			return err
		}
	}
}

func (c *client) publishOnce(ctx context.Context, generation, version int64, path string) error {
	body := map[string]any{"path": path, "generation": generation}
	var policy struct {
		State  string `json:"state"`
		Reason string `json:"reason"`
	}
	if err := c.call(ctx, http.MethodPut, fmt.Sprintf("/policies/%d", version), body, publishTimeout,
		&policy); err != nil {
		return err
	}
	if policy.State == "rejected" {
		return fmt.Errorf("rejected: %s", policy.Reason)
	}
	return nil
}

// call sends a JSON body and reads a JSON answer.
func (c *client) call(ctx context.Context, method, path string, body any, timeout time.Duration, answer any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	resp, err := c.persist(ctx, method, path, b, timeout)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if answer == nil {
		_, err = io.Copy(io.Discard, resp.Body) // so that the connection can be used again
		return err
	}
	if err := json.NewDecoder(resp.Body).Decode(answer); err != nil {
		return fmt.Errorf("read answer of %s %s: %w", method, path, err)
	}
	return nil
}

// persist repeats a request until it succeeds, or is refused for a reason that repeating does not solve. That is right
// because every call of the API may be repeated.
func (c *client) persist(
	ctx context.Context, method, path string, body []byte, timeout time.Duration,
) (*http.Response, error) {
	began := time.Now()
	told := false
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		resp, err := c.try(ctx, method, path, body, timeout)
		if err == nil || ctx.Err() != nil || !transient(err) {
			return resp, err
		}
		if time.Since(began) > c.patience+timeout {
			return nil, fmt.Errorf("gave up after %v: %w", time.Since(began).Round(time.Second), err)
		}
		if !told && time.Since(began) > time.Second {
			c.say("still trying: %v", err)
			told = true
		}
		if err := retry.Pause(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// try sends a request once. The deadline covers the answer's body, too: it ends when the body is closed.
func (c *client) try(
	ctx context.Context, method, path string, body []byte, timeout time.Duration,
) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	resp, err := c.api.Open(ctx, method, c.run+path, "application/json", body)
	if err != nil {
		cancel()
		return nil, err
	}
	resp.Body = &cancelBody{resp.Body, cancel}
	return resp, nil
}

// transient reports whether asking again may help: the server is unavailable or says so.
func transient(err error) bool {
	var p *apiclient.Problem
	if !errors.As(err, &p) {
		return true
	}
	return p.Retryable || p.Status == http.StatusTooManyRequests || p.Status == http.StatusBadGateway ||
		p.Status == http.StatusServiceUnavailable || p.Status == http.StatusGatewayTimeout
}

// cancelBody ends its request's deadline when it is closed.
type cancelBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *cancelBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
