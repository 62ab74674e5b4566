package openenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/millrace/millrace/internal/game/specurl"
	"github.com/millrace/millrace/internal/rollout"
)

// Bounds of a session.
const (
	answerPatience  = 60 * time.Second // of one answer; OpenEnv's own client has as much
	sessionPatience = 20 * time.Second // until a game gives its slot to others
	mostBreaks      = 3                // sessions that one action may end
	maxFrame        = 1 << 20          // bytes of an observation: it is kept with the game
)

// dialer opens sessions.
type dialer struct {
	servers  []*specurl.Server
	reset    map[string]any
	patience time.Duration // of one answer
}

// newDialer makes a dialer that connects as the service's configuration says.
func newDialer(urls []string, reset map[string]any, conns specurl.Connections) (d dialer, err error) {
	d.reset, d.patience = reset, answerPatience
	for _, url := range urls {
		if rest, is := strings.CutPrefix(url, "ws"); is {
			url = "http" + rest // a WebSocket begins as that, and the rules speak of it
		}
		server, err := specurl.New(conns, strings.TrimSuffix(url, "/"))
		if err != nil {
			return d, err
		}
		server.URL = strings.TrimSuffix(server.URL, "/ws")
		d.servers = append(d.servers, server)
	}
	return d, nil
}

// refused is the server's answer that an action is none.
type refused struct{ message string }

func (e *refused) Error() string { return "openenv: the action is refused: " + e.message }

// broken is a failure after which a new session may do better.
type broken struct{ error }

func (e broken) Unwrap() error { return e.error }

// patiently tries again what fails because a server or a session is gone, or has no room.
func (d dialer) patiently(try func() error) error {
	began, pause := time.Now(), 250*time.Millisecond
	for {
		err := try()
		if !errors.As(err, new(broken)) {
			return err
		}
		if time.Since(began)+pause > sessionPatience {
			return rollout.Fail(rollout.Retryable, rollout.CodeEnvironmentUnavailable, err)
		}
		time.Sleep(pause/2 + rand.N(pause)) // many games see the same end of a server
		pause = min(2*pause, 10*time.Second)
	}
}

// session is one environment at a server, for as long as its connection lives.
type session struct {
	conn     *websocket.Conn
	url      string
	patience time.Duration
}

// open resets a new session at any of the servers.
func (d dialer) open(seed int64) (*session, result, error) {
	at := d.servers[rand.IntN(len(d.servers))]
	ctx, cancel := context.WithTimeout(context.Background(), specurl.DialPatience)
	defer cancel()
	conn, resp, err := websocket.Dial(ctx, at.URL+"/ws", &websocket.DialOptions{HTTPClient: at.HTTP})
	if resp != nil && resp.Body != nil {
		_ = resp.Body.Close()
	}
	if err != nil {
		return nil, result{}, broken{fmt.Errorf("openenv: connect to %s: %w", at.URL, err)}
	}
	conn.SetReadLimit(maxFrame)
	s := &session{conn: conn, url: at.URL, patience: d.patience}
	data := map[string]any{"seed": seed}
	maps.Copy(data, d.reset)
	r, err := s.ask("reset", data)
	if err != nil {
		_ = s.close() // the failure is reset's
		return nil, result{}, err
	}
	return s, r, nil
}

func (s *session) step(action json.RawMessage) (result, error) { return s.ask("step", action) }

// ask sends one message and reads its answer.
func (s *session) ask(kind string, data any) (result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.patience)
	defer cancel()
	if err := wsjson.Write(ctx, s.conn, map[string]any{"type": kind, "data": data}); err != nil {
		return result{}, broken{fmt.Errorf("openenv: %s at %s: %w", kind, s.url, err)}
	}
	_, text, err := s.conn.Read(ctx)
	switch {
	case errors.Is(err, websocket.ErrMessageTooBig):
		return result{}, fmt.Errorf("openenv: %s at %s: an answer of more than %d bytes", kind, s.url, maxFrame)
	case err != nil:
		return result{}, broken{fmt.Errorf("openenv: %s at %s: %w", kind, s.url, err)}
	}
	var answer struct {
		Type string          `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return result{}, fmt.Errorf("openenv: %s at %s: the answer is no JSON object: %.80q", kind, s.url, text)
	}
	switch answer.Type {
	case "observation":
		var r result
		if err := json.Unmarshal(answer.Data, &r); err != nil || r.Observation == nil {
			return result{}, fmt.Errorf("openenv: %s at %s: an answer without an observation that can be read: %.200s",
				kind, s.url, answer.Data)
		}
		return r, nil
	case "error":
		return result{}, s.fault(kind, answer.Data)
	}
	return result{}, fmt.Errorf("openenv: %s at %s: an answer of type %.40q", kind, s.url, answer.Type)
}

// fault is an error that the server tells: after some, its session is over.
func (s *session) fault(kind string, data json.RawMessage) error {
	var told struct {
		Message string `json:"message"`
		Code    string `json:"code"`
	}
	_ = json.Unmarshal(data, &told) // without a code it is any error
	if len(told.Message) > 500 {
		told.Message = told.Message[:500] + "..."
	}
	err := fmt.Errorf("openenv: %s at %s: %s: %s", kind, s.url, told.Code, strings.ToValidUTF8(told.Message, "?"))
	switch {
	case told.Code == "VALIDATION_ERROR" && kind == "step":
		return &refused{told.Message}
	case told.Code == "CAPACITY_REACHED", told.Code == "FACTORY_ERROR", told.Code == "SESSION_ERROR":
		return broken{err}
	}
	return err
}

// close tells the server that the session is over, and does not wait for it.
func (s *session) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = wsjson.Write(ctx, s.conn, map[string]string{"type": "close"}) // a closed connection says the same
	return s.conn.CloseNow()
}
