package openenv

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/game/specurl"
	"github.com/millrace/millrace/internal/rollout"
)

// counting is a server of a game in which two players add 1 or 2 in turn; who comes to 7 or more has won. It counts its
// sessions, and does what a test wants before it answers a message.
type counting struct {
	opened, open atomic.Int64
	before       func(conn *websocket.Conn, session int64, kind string) (answered bool)
	drifts       bool // a session begins where its number says, not its seed
}

func (c *counting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil || r.URL.Path != "/ws" {
		return
	}
	session := c.opened.Add(1)
	c.open.Add(1)
	defer c.open.Add(-1)
	defer func() { _ = conn.CloseNow() }()
	total, turn := 0, 0
	for {
		var asked struct {
			Type string `json:"type"`
			Data struct {
				Seed *int64 `json:"seed"`
				Add  any    `json:"add"`
			} `json:"data"`
		}
		if wsjson.Read(r.Context(), conn, &asked) != nil || asked.Type == "close" {
			return
		}
		if c.before != nil && c.before(conn, session, asked.Type) {
			continue
		}
		say := func(kind string, data any) {
			_ = wsjson.Write(r.Context(), conn, map[string]any{"type": kind, "data": data})
		}
		reward := 0.0
		switch {
		case asked.Type == "reset" && asked.Data.Seed != nil:
			total, turn = int(*asked.Data.Seed%2), 0
			if c.drifts {
				total = int(session)
			}
		case asked.Type == "step" && (asked.Data.Add == 1.0 || asked.Data.Add == 2.0):
			total, turn = total+int(asked.Data.Add.(float64)), turn+1
			if total >= 7 {
				reward = 1
			}
		default:
			say("error", map[string]any{"message": "add: want 1 or 2", "code": "VALIDATION_ERROR", "errors": []any{}})
			continue
		}
		say("observation", map[string]any{"reward": reward, "done": total >= 7, "observation": map[string]any{
			"total": total, "current_player_id": turn % 2, "legal_actions": []int{1, 2},
			"metadata": map[string]any{"session": session}}})
	}
}

// closed waits until no session is left.
func (c *counting) closed(t *testing.T) {
	t.Helper()
	for range 6000 {
		if c.open.Load() == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d sessions are left", c.open.Load())
}

func served(t *testing.T, c *counting, options string) *Env {
	t.Helper()
	srv := httptest.NewServer(c)
	t.Cleanup(srv.Close)
	env, err := FromOptions([]byte(fmt.Sprintf(`{"urls": [%q], "action": {"add": "{answer}"}, "choices": "legal_actions",
		"template": "total {total}: "%s}`, srv.URL, options)))
	if err != nil {
		t.Fatal(err)
	}
	return env
}

func begun(t *testing.T, env *Env) episode.Game {
	t.Helper()
	scenario, err := env.Scenario(4)
	if err != nil {
		t.Fatal(err)
	}
	g, err := env.Start(scenario, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// turn has whoever is to act answer, and says what it was asked.
func turn(t *testing.T, g episode.Game, answer string) (asked episode.Prompt, o episode.Outcome) {
	t.Helper()
	prompts, err := g.Prompts()
	if err != nil || len(prompts) != 1 {
		t.Fatalf("%+v, %v", prompts, err)
	}
	if o, err = g.Act(map[string]string{prompts[0].Agent: answer}); err != nil {
		t.Fatal(err)
	}
	return prompts[0], o
}

func TestTwoPlayersToTheEnd(t *testing.T) {
	t.Parallel()
	c := &counting{}
	g := begun(t, served(t, c, ""))
	for i, answer := range []string{"2", " 2\n", "2", "1"} {
		asked, o := turn(t, g, answer)
		if asked.Agent != fmt.Sprint("player_", i%2) || asked.Text != fmt.Sprintf("total %d: ", 2*i) ||
			fmt.Sprint(asked.Constraint.Choices) != "[1 2]" || o.Counts[countValid] != 1 {
			t.Errorf("turn %d: %+v, %+v", i, asked, o)
		}
	}
	result, err := g.Result()
	if err != nil || !g.Done() || fmt.Sprint(result.Rewards) != "map[player_0:0 player_1:1]" || result.Truncated {
		t.Errorf("%+v, %v", result, err)
	}
	if err := g.(*game).Close(); err != nil {
		t.Error(err)
	}
	c.closed(t)
}

// TestGoesOnInANewSession: after the socket broke, and in another process, a game goes on where it was.
func TestGoesOnInANewSession(t *testing.T) {
	t.Parallel()
	c := &counting{}
	broke := false
	c.before = func(conn *websocket.Conn, _ int64, kind string) bool {
		if kind == "step" && !broke {
			broke = true
			_ = conn.CloseNow()
			return true
		}
		return false
	}
	env := served(t, c, "")
	g := begun(t, env)
	turn(t, g, "2")
	saved, err := g.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	if g, err = env.Resume(saved); err != nil {
		t.Fatal(err)
	}
	asked, _ := turn(t, g, "1")
	if asked.Text != "total 2: " || c.opened.Load() != 3 {
		t.Errorf("%+v after %d sessions", asked, c.opened.Load())
	}
	if asked, _ = turn(t, g, "1"); asked.Text != "total 3: " {
		t.Errorf("%+v", asked)
	}
}

// TestActionThatEndsEverySession: a game does not go on trying what its server cannot bear.
func TestActionThatEndsEverySession(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(*websocket.Conn){
		"ends":     func(conn *websocket.Conn) { _ = conn.CloseNow() },
		"silences": func(*websocket.Conn) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &counting{}
			c.before = func(conn *websocket.Conn, _ int64, kind string) bool {
				if kind == "step" {
					answer(conn)
				}
				return kind == "step"
			}
			env := served(t, c, "")
			g := begun(t, env)
			g.(*game).session.patience, env.dial.patience = 50*time.Millisecond, time.Second
			_, err := g.Act(map[string]string{"player_0": "1"})
			if rollout.CodeOf(err) != rollout.CodeEnvironmentPanic || c.opened.Load() != mostBreaks {
				t.Errorf("%v after %d sessions", err, c.opened.Load())
			}
			c.closed(t)
		})
	}
}

// TestPlayersNames: a player's name is part of ids and paths.
func TestPlayersNames(t *testing.T) {
	t.Parallel()
	for id, good := range map[any]bool{0: true, "white": true, "a/b": false, "": true, "a b": false, 1.5: false,
		strings.Repeat("x", 99): false} {
		c := &counting{}
		c.before = func(conn *websocket.Conn, _ int64, _ string) bool {
			_ = wsjson.Write(t.Context(), conn, map[string]any{"type": "observation", "data": map[string]any{
				"observation": map[string]any{"total": 0, "current_player_id": id, "legal_actions": []int{1}}}})
			return true
		}
		if _, err := begun(t, served(t, c, "")).Prompts(); err == nil != good {
			t.Errorf("%v: %v", id, err)
		}
	}
}

// TestNotDeterministic: a session that begins elsewhere with the same seed ends its game with a code of its own.
func TestNotDeterministic(t *testing.T) {
	t.Parallel()
	env := served(t, &counting{drifts: true}, "")
	g := begun(t, env)
	saved, err := g.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	if g, err = env.Resume(saved); err != nil {
		t.Fatal(err)
	}
	_, err = g.Act(map[string]string{"player_0": "1"})
	if rollout.CodeOf(err) != rollout.CodeNotDeterministic || rollout.KindOf(err) != rollout.GameFault {
		t.Errorf("%v", err)
	}
}

// TestInvalidAnswer: an answer that the server refuses ends the game with the reward for that.
func TestInvalidAnswer(t *testing.T) {
	t.Parallel()
	env := served(t, &counting{}, `, "invalid_reward": -1`)
	env.cfg.Choices = ""
	g := begun(t, env)
	if _, o := turn(t, g, "three"); o.Counts[countInvalid] != 1 {
		t.Errorf("%+v", o)
	}
	if result, err := g.Result(); err != nil || fmt.Sprint(result.Rewards) != "map[player_0:-1]" {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestCutOff(t *testing.T) {
	t.Parallel()
	g := begun(t, served(t, &counting{}, `, "max_turns": 2`))
	turn(t, g, "1")
	turn(t, g, "1")
	if result, err := g.Result(); err != nil || !result.Truncated {
		t.Errorf("%+v, %v", result, err)
	}
}

// TestNoRoom: a server that is full is asked again until it has room.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	c := &counting{}
	c.before = func(conn *websocket.Conn, session int64, _ string) bool {
		if session > 2 {
			return false
		}
		_ = wsjson.Write(t.Context(), conn, map[string]any{"type": "error", "data": map[string]any{
			"message": "Server at capacity: 1/1 sessions active", "code": "CAPACITY_REACHED"}})
		_ = conn.CloseNow()
		return true
	}
	if g := begun(t, served(t, c, "")); g.Done() || c.opened.Load() != 3 {
		t.Errorf("%d sessions", c.opened.Load())
	}
}

// TestNonsense: what is no answer of OpenEnv's is a failure that says what came, and is not tried again and again.
func TestNonsense(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`pong`:                    `the answer is no JSON object: "pong"`,
		`{"type": "pong"}`:        `an answer of type "pong"`,
		`{"type": "observation"}`: "an answer without an observation",
		`{"type": "error", "data": {"message": "boom", "code": "EXECUTION_ERROR"}}`: "EXECUTION_ERROR: boom",
		`{"a": "` + strings.Repeat("x", 2<<20) + `"}`:                               "an answer of more than 1048576 bytes",
	} {
		c := &counting{}
		c.before = func(conn *websocket.Conn, _ int64, _ string) bool {
			_ = conn.Write(t.Context(), websocket.MessageText, []byte(text))
			return true
		}
		env := served(t, c, "")
		scenario, _ := env.Scenario(1)
		if _, err := env.Start(scenario, 1, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v; want %s", text, err, want)
		}
		c.closed(t)
	}
}

// TestChat: a conversation grows by what was seen and answered.
func TestChat(t *testing.T) {
	t.Parallel()
	g := begun(t, served(t, &counting{}, `, "chat": true, "system": "Add."`))
	turn(t, g, "2")
	asked, _ := turn(t, g, "1")
	want := "[{system Add. [] } {user total 0:  [] } {assistant 2 [] } {user total 2:  [] }]"
	if got := fmt.Sprint(asked.Messages); got != want || asked.Text != "" {
		t.Errorf("%s, %q", got, asked.Text)
	}
}

// TestReach: a server at an address that the rules refuse is not reached, whatever its URL looks like.
func TestReach(t *testing.T) {
	t.Parallel()
	c := &counting{}
	srv := httptest.NewServer(c)
	t.Cleanup(srv.Close)
	env, err := FromOptions([]byte(fmt.Sprintf(`{"urls": ["ws%s/ws"]}`, strings.TrimPrefix(srv.URL, "http"))))
	if err != nil {
		t.Fatal(err)
	}
	rules := &refusing{}
	if err := env.Reach(rules); err != nil {
		t.Fatal(err)
	}
	_, _, err = env.dial.open(1)
	if err == nil || !strings.Contains(err.Error(), specurl.ErrDenied.Error()) || c.opened.Load() != 0 ||
		rules.url != srv.URL+"/ws" {
		t.Errorf("%v, %d sessions, ruled by %s", err, c.opened.Load(), rules.url)
	}
}

// refusing allows a URL, and no address.
type refusing struct {
	specurl.Connections
	url string
}

func (r *refusing) DialNamed(url string) (func(string, string, syscall.RawConn) error, error) {
	r.url = url
	return func(string, string, syscall.RawConn) error { return errors.New("not there") }, nil
}
func (*refusing) TLS(string) *tls.Config { return nil }

func TestBadOptions(t *testing.T) {
	t.Parallel()
	for options, want := range map[string]string{
		`{}`:                                     "urls: is missing",
		`{"urls": ["localhost:8000"]}`:           "urls: ",
		`{"urls": ["http://h"], "action": {}}`:   "action: {} holds no",
		`{"urls": ["http://h"], "system": "s"}`:  "system: ",
		`{"urls": ["http://h"], "max_turns": 0}`: "max_turns: 0 is not within",
		`{"urls": ["http://h"], "choices": "a", "constraint": "b"}`: "constraint: ",
		`{"urls": ["http://h"], "extract": "("}`:                    "extract: ",
		`{"urls": ["http://h"], "tempo": 1}`:                        `unknown field "tempo"`,
	} {
		if _, err := FromOptions([]byte(options)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", options, err, want)
		}
	}
	if err := errors.Unwrap(broken{errors.ErrUnsupported}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v", err)
	}
}
