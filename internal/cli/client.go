package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
)

const (
	// callTimeout bounds a call as a whole. Loading an adapter is the slowest thing that a call may wait for, and
	// no command here does.
	callTimeout = time.Minute
	// maxAnswer bounds what is read of an answer: a thousand step records with their timelines are a few MB.
	maxAnswer = 256 << 20
)

// Client calls the HTTP API of one server.
type Client struct {
	server string
	token  string
	http   *http.Client
}

// NewClient makes a client of the server at an address such as http://127.0.0.1:8700. An empty token sends none.
func NewClient(server, token string, h *http.Client) (*Client, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, usage("server %q: want a URL such as %s", server, DefaultServer)
	}
	if h == nil {
		h = http.DefaultClient
	}
	return &Client{server: strings.TrimRight(server, "/"), token: token, http: h}, nil
}

// Problem is a refusal of the server (RFC 9457).
type Problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`
	RequestID string `json:"request_id"`
	Errors    []struct {
		Message  string `json:"message"`
		Location string `json:"location"`
	} `json:"errors"`
}

// Error is what the server said, each fault on a line of its own.
func (p *Problem) Error() string {
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	for _, e := range p.Errors {
		fault := strings.TrimPrefix(e.Location+": "+e.Message, ": ")
		if !strings.Contains(text, fault) {
			text += "\n  " + fault
		}
	}
	switch {
	case p.Status == http.StatusUnauthorized:
		text += "\n  set MILLRACE_TOKEN to one of the server's tokens"
	case p.Status >= http.StatusInternalServerError && p.RequestID != "":
		text += " (request_id " + p.RequestID + ")"
	}
	return text
}

// answer is a document of the server, as it came.
type answer struct {
	status int
	body   []byte
}

// call makes one call. The body, if any, is of the given media type.
func (c *Client) call(ctx context.Context, method, path, mediaType string, body []byte) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := c.open(ctx, method, path, mediaType, body)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return answer{}, c.away(err)
	}
	return answer{resp.StatusCode, data}, nil
}

// copyTimeout bounds the reading of one large document.
const copyTimeout = 30 * time.Minute

// copy reads a document of any size and writes it as it comes. A refusal writes nothing.
func (c *Client) copy(ctx context.Context, path string, to io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, copyTimeout)
	defer cancel()
	resp, err := c.open(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(to, resp.Body); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	return nil
}

// open makes a call and answers what is not a refusal; the caller closes its body.
func (c *Client) open(ctx context.Context, method, path, mediaType string, body []byte) (*http.Response, error) {
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
		return nil, c.away(err)
	}
	if resp.StatusCode < http.StatusBadRequest {
		return resp, nil
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, c.away(err)
	}
	return nil, c.problem(resp, data)
}

// away explains a server that does not answer. An interruption stays what it is.
func (c *Client) away(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	var cause *url.Error
	if errors.As(err, &cause) {
		err = cause.Err
	}
	why := err.Error()
	if errors.Is(err, context.DeadlineExceeded) {
		why = fmt.Sprintf("no answer within %v", callTimeout)
	}
	return &unreachable{fmt.Sprintf(
		"no millrace server answers at %s: %s\n  start one with: millrace dev (or millrace server), or name another with --server or MILLRACE_SERVER", c.server, why), err}
}

// problem reads a refusal; an answer that is none comes from something else at this address.
func (c *Client) problem(resp *http.Response, body []byte) error {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	p := &Problem{}
	if kind == "application/problem+json" && json.Unmarshal(body, p) == nil {
		p.Status = resp.StatusCode
		return p
	}
	return &Problem{Status: resp.StatusCode, Detail: fmt.Sprintf(
		"%s answers %s without saying why; is it a millrace server?", c.server, resp.Status)}
}

// read decodes an answer into T.
func read[T any](a answer, err error) (T, answer, error) {
	var v T
	if err != nil {
		return v, a, err
	}
	if err := json.Unmarshal(a.body, &v); err != nil {
		return v, a, fmt.Errorf("read the server's answer: %w", err)
	}
	return v, a, nil
}

func get[T any](ctx context.Context, c *Client, path string) (T, answer, error) {
	return read[T](c.call(ctx, http.MethodGet, path, "", nil))
}

func send[T any](ctx context.Context, c *Client, method, path string, body any) (T, answer, error) {
	data, err := json.Marshal(body)
	if err != nil {
		var none T
		return none, answer{}, fmt.Errorf("write the request: %w", err)
	}
	return read[T](c.call(ctx, method, path, "application/json", data))
}

// runView is a run with what the buffer and the engines say of it now.
type runView struct {
	rollout.RunStatus
	Buffer     rollout.BufferCounts  `json:"buffer"`
	ReadyDepth float64               `json:"ready_depth"`
	Fleet      *rollout.FleetView    `json:"fleet"`
	Departures []rollout.LengthCount `json:"departures"`
	Tries      rollout.Tries         `json:"tries"`
	Alarms     []rollout.Alarm       `json:"alarms"`
	Waits      []wait                `json:"waits"`
}

// wait is something that waits, with its owner.
type wait struct {
	What     string    `json:"what"`
	Owner    string    `json:"owner"`
	Since    time.Time `json:"since"`
	Deadline time.Time `json:"deadline"`
	Detail   string    `json:"detail"`
}

func runPath(run rollout.RunName) string { return "/v1/runs/" + url.PathEscape(string(run)) }

func enginePath(id string) string { return "/v1/engines/" + url.PathEscape(id) }

func (c *Client) run(ctx context.Context, run rollout.RunName) (runView, answer, error) {
	return get[runView](ctx, c, runPath(run))
}

// start posts a spec as it was written; the server reads it.
func (c *Client) start(ctx context.Context, spec []byte) (rollout.RunStatus, answer, error) {
	return read[rollout.RunStatus](c.call(ctx, http.MethodPost, "/v1/runs", "application/yaml", spec))
}

// StartRun starts a run, or finds that it was started before.
func (c *Client) StartRun(ctx context.Context, spec rollout.Spec) error {
	_, _, err := send[rollout.RunStatus](ctx, c, http.MethodPost, "/v1/runs", spec)
	return err
}

// stepsPage is how many records one call brings.
const stepsPage = 200

// steps reads the records from a step on, page by page.
func (c *Client) steps(ctx context.Context, run rollout.RunName, from rollout.Step) ([]rollout.StepRecord, error) {
	type page struct {
		Steps []rollout.StepRecord `json:"steps"`
		Next  *rollout.Step        `json:"next"`
	}
	all := []rollout.StepRecord{}
	for {
		p, _, err := get[page](ctx, c, fmt.Sprintf("%s/steps?from=%d&limit=%d", runPath(run), from, stepsPage))
		if err != nil {
			return nil, err
		}
		all = append(all, p.Steps...)
		if p.Next == nil {
			return all, nil
		}
		from = *p.Next
	}
}

// Engines is the fleet.
func (c *Client) Engines(ctx context.Context) ([]rollout.Engine, error) {
	engines, _, err := c.engines(ctx)
	return engines, err
}

func (c *Client) engines(ctx context.Context) ([]rollout.Engine, answer, error) {
	type list struct {
		Engines []rollout.Engine `json:"engines"`
	}
	l, a, err := get[list](ctx, c, "/v1/engines")
	return l.Engines, a, err
}

// AddEngine makes an engine a member of the fleet, or finds that it is one.
func (c *Client) AddEngine(ctx context.Context, id, address string, maxInFlight int) error {
	_, _, err := c.addEngine(ctx, id, address, maxInFlight)
	return err
}

func (c *Client) addEngine(ctx context.Context, id, address string, maxInFlight int) (rollout.Engine, answer, error) {
	body := struct {
		URL         string `json:"url"`
		MaxInFlight int    `json:"max_in_flight,omitempty"`
	}{address, maxInFlight}
	return send[rollout.Engine](ctx, c, http.MethodPut, enginePath(id), body)
}

// Game is one game as its environment writes it.
func (c *Client) Game(ctx context.Context, ref rollout.EpisodeRef) ([]byte, error) {
	a, err := c.call(ctx, http.MethodGet, fmt.Sprintf("%s/games/%d/%d", runPath(ref.Run), ref.Seq, ref.Sample), "", nil)
	return a.body, err
}

// latestTried bounds how many groups LatestGame asks about.
const latestTried = 64

// LatestGame is the newest game of a run of which anything is kept: the first game of the newest group that has begun.
func (c *Client) LatestGame(ctx context.Context, run rollout.RunName) (rollout.EpisodeRef, []byte, error) {
	v, _, err := c.run(ctx, run)
	if err != nil {
		return rollout.EpisodeRef{}, nil, err
	}
	b := v.Buffer
	next := b.InFlight + b.Ready + b.Claimed + b.Completed + b.Dropped
	why := "none has begun"
	for seq := next - 1; seq >= max(0, next-latestTried); seq-- {
		ref := rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: run, Seq: rollout.GroupSeq(seq)}}
		game, err := c.Game(ctx, ref)
		var refused *Problem
		if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
			if seq == next-1 {
				why = refused.Detail
			}
			continue
		}
		return ref, game, err
	}
	return rollout.EpisodeRef{}, nil, &Problem{Status: http.StatusNotFound, Detail: fmt.Sprintf(
		"there is no game of %s to show; of the newest: %s; see: millrace run show %s", run, why, run)}
}

func (c *Client) diagnosis(ctx context.Context, run rollout.RunName) (diagnosis.Report, answer, error) {
	return get[diagnosis.Report](ctx, c, runPath(run)+"/diagnosis")
}
