package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

func TestBadInputIsRefusedAndHarmsNothing(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	f.start()
	f.ready(0, 1)
	f.attach()
	f.want(f.do("POST", "/v1/runs/demo/steps/0/claim?generation=1", ""), 200)
	junk := string([]byte{0, 1, 2, 0xff, 0xfe, '{', '['})
	for _, tt := range []struct {
		name, method, path, body string
		status                   int
		code                     string
		says                     string
	}{
		{"spec that is junk", "POST", "/v1/runs", junk, 422, "invalid", "run spec"},
		{"no spec", "POST", "/v1/runs", "", 400, "malformed", "body is required"},
		{"other spec under a name", "POST", "/v1/runs",
			`{"name":"demo","steps":1,"buffer":{"depth":1,"groups_per_step":1,"on_stale":"drop"}}`, 409, "conflict", ""},
		{"unknown run", "GET", "/v1/runs/nobody", "", 404, "no-such-run", "nobody"},
		{"name that is none", "GET", "/v1/runs/a%7Bb%7D", "", 422, "invalid", "path.run"},
		{"claim without generation", "POST", "/v1/runs/demo/steps/0/claim", "", 409, "fenced", "/trainer"},
		{"claim with junk", "POST", "/v1/runs/demo/steps/0/claim", junk, 400, "malformed", ""},
		{"claim two ahead", "POST", "/v1/runs/demo/steps/2/claim?generation=1", "", 409, "out-of-order", "step"},
		{"claim of a negative step", "POST", "/v1/runs/demo/steps/-1/claim?generation=1", "", 422, "invalid", "path.step"},
		{"claim of no step", "POST", "/v1/runs/demo/steps/next/claim?generation=1", "", 422, "invalid", "path.step"},
		{"wait that is none", "POST", "/v1/runs/demo/steps/0/claim?generation=1&wait=soon", "", 422, "invalid", "30s"},
		{"rank outside of world", "POST", "/v1/runs/demo/steps/0/claim?generation=1&rank=2&world=2", "", 422, "invalid",
			"rank 2"},
		{"unknown query", "POST", "/v1/runs/demo/steps/0/claim?generation=1&wiat=30s", "", 422, "invalid", "wiat"},
		{"record never claimed", "PUT", "/v1/runs/demo/steps/1", `{"generation":1,"wall_seconds":1}`, 409, "not-claimed", "step"},
		{"record without generation", "PUT", "/v1/runs/demo/steps/0", `{"wall_seconds":1}`, 409, "fenced", "generation"},
		{"record with a typo", "PUT", "/v1/runs/demo/steps/0", `{"generation":1,"wall_seconds":1,"phase":{}}`, 422,
			"invalid", "body.phase"},
		{"phase below nothing", "PUT", "/v1/runs/demo/steps/0", `{"generation":1,"wall_seconds":1,"phases":{"train":-1}}`, 422,
			"invalid", "phases.train"},
		{"phase of 1e308 s", "PUT", "/v1/runs/demo/steps/0", `{"generation":1,"wall_seconds":1e308,"phases":{"train":1e308}}`, 422,
			"invalid", "phases.train"},
		{"wall time of 1e308 s", "PUT", "/v1/runs/demo/steps/0", `{"generation":1,"wall_seconds":1e308}`, 422,
			"invalid", "wall_seconds"},
		{"phases over the wall", "PUT", "/v1/runs/demo/steps/0", `{"generation":1,"wall_seconds":1,"phases":{"train":2}}`, 422,
			"invalid", "wall_seconds"},
		{"no record", "PUT", "/v1/runs/demo/steps/0", "", 400, "malformed", ""},
		{"resume from what was never reached", "POST", "/v1/runs/demo/trainer", `{"resume_from":2}`, 409, "out-of-order", ""},
		{"version that skips", "PUT", "/v1/runs/demo/policies/9", `{"path":"/a"}`, 409, "out-of-order", ""},
		{"version zero", "PUT", "/v1/runs/demo/policies/0", `{"path":"/a"}`, 422, "invalid", "path.version"},
		{"adapter that is missing", "PUT", "/v1/runs/demo/policies/1", `{"path":"/missing"}`, 422, "invalid", "/missing"},
		{"no path", "PUT", "/v1/runs/demo/policies/1", `{}`, 422, "invalid", "path"},
		{"version never published", "GET", "/v1/runs/demo/policies/7", "", 404, "no-such-policy", "7"},
		{"step never given out", "GET", "/v1/runs/demo/steps/7", "", 404, "no-such-step", ""},
		{"change of an unknown field", "PATCH", "/v1/runs/demo", `{"depht":4}`, 422, "invalid", "did you mean buffer.depth?"},
		{"change of a wrong type", "PATCH", "/v1/runs/demo", `{"buffer":{"depth":"four"}}`, 422, "invalid", "body.buffer.depth"},
		{"change to an unknown treatment", "PATCH", "/v1/runs/demo", `{"buffer":{"on_stale":"maybe"}}`, 422, "invalid",
			"drop, keep, wait"},
		{"change to an unknown treatment of zero-variance groups", "PATCH", "/v1/runs/demo", `{"group":{"zero_variance":"wait"}}`, 422,
			"invalid", "keep, drop"},
		{"change to a grace that is none", "PATCH", "/v1/runs/demo", `{"group":{"grace":"soon"}}`, 422, "invalid", "90s"},
		{"change to a number that is no duration", "PATCH", "/v1/runs/demo", `{"group":{"grace":30}}`, 422, "invalid",
			"body.group.grace"},
		{"change of a key that stays", "PATCH", "/v1/runs/demo", `{"sampling":{"top_k":4}}`, 422, "invalid",
			"sampling.top_k"},
		{"change of a key twice", "PATCH", "/v1/runs/demo", `{"buffer":{"depth":4,"depth":3}}`, 422,
			"invalid", "given twice"},
		{"change that is no object", "PATCH", "/v1/runs/demo", `[4]`, 422, "invalid", "JSON object"},
		{"change to less than nothing", "PATCH", "/v1/runs/demo", `{"buffer":{"max_bytes":-1}}`, 422, "invalid",
			"body.buffer.max_bytes"},
		{"stop of an unknown run", "POST", "/v1/runs/nobody/stop", "", 404, "no-such-run", ""},
		{"unknown engine", "POST", "/v1/engines/nowhere/drain", "", 404, "no-such-engine", "nowhere"},
		{"unknown engine shown", "GET", "/v1/engines/nowhere", "", 404, "no-such-engine", "nowhere"},
		{"unknown engine removed", "DELETE", "/v1/engines/nowhere", "", 404, "no-such-engine", "nowhere"},
		{"engine that is nowhere", "PUT", "/v1/engines/a", `{"url":"not a url"}`, 422, "invalid", ""},
		{"engine name that is none", "PUT", "/v1/engines/a%20b", `{"url":"http://x:1"}`, 422, "invalid", "path.id"},
		{"game not begun", "GET", "/v1/runs/demo/games/99/0", "", 404, "no-such-game", "demo/99/0"},
		{"no such path", "GET", "/v2/runs", "", 404, "no-such-path", "/openapi.json"},
		{"no such method", "PUT", "/v1/runs/demo", "", 405, "method-not-allowed", "GET or PATCH or DELETE"},
		{"encoding that is none", "GET", "/v1/runs/%ff%fe", "", 422, "invalid", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := *f
			f.t = t
			f.refused(f.do(tt.method, tt.path, tt.body), tt.status, tt.code, tt.says)
		})
	}
	// The run is as it was.
	f.want(f.do("PUT", "/v1/runs/demo/steps/0", `{"generation":1,"wall_seconds":1}`), 201)
}

// endless is a body without end that counts what was read of it.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(b []byte) (int, error) {
	clear(b)
	e.read.Add(int64(len(b)))
	return len(b), nil
}

func TestLargeBodiesAreRefusedUnread(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	const size = 100 << 20
	for _, announced := range []bool{true, false} {
		body := &endless{}
		req, err := http.NewRequest("POST", f.url+"/v1/runs", io.NopCloser(io.LimitReader(body, size)))
		if err != nil {
			t.Fatal(err)
		}
		if announced {
			req.ContentLength = size
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			// The server may cut the connection before the client has seen the answer to a body that it is still
			// sending.
			if body.read.Load() >= size {
				t.Errorf("announced %v: %v after all of the body", announced, err)
			}
			continue
		}
		got, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		f.refused(&answer{t, resp.StatusCode, resp.Header, got}, 413, "too-large", "1048576")
		if body.read.Load() >= size {
			t.Errorf("announced %v: the server took all of it", announced)
		}
	}
}

// A client that reads nothing before it has sent everything gets the answer, and no reset connection.
func TestLargeBodyIsAnsweredAfterItsEnd(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	host := strings.TrimPrefix(f.url, "http://")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const size = 30_000_000
	_, err = fmt.Fprintf(conn, "POST /v1/runs HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n", host, size)
	if err == nil {
		_, err = conn.Write(make([]byte, size))
	}
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || resp.StatusCode != 413 {
		t.Errorf("%v, %v", resp, err)
	}
}

func TestSpecFaultsAreAllReported(t *testing.T) {
	t.Parallel()
	f := serve(t, func(_ *api.Config, d *api.Deps) {
		d.ReadSpec = func([]byte) (runspec.Spec, error) {
			return runspec.Spec{}, fmt.Errorf("spec: %w", errors.Join(errors.New("spec:3:5: a"), errors.New("spec:4:1: b")))
		}
	})
	a := f.do("POST", "/v1/runs", "x: y")
	f.refused(a, 422, "invalid", "2 faults", "spec:3:5: a", "spec:4:1: b")
	if n := len(a.problem().Errors); n != 2 {
		t.Errorf("%d faults listed, want 2", n)
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	const token, other = "correct-horse-battery", "staple-of-a-second-one"
	f := serve(t, func(c *api.Config, _ *api.Deps) { c.Tokens = []string{token, other} })
	for _, tt := range []struct {
		name, path, header string
		status             int
	}{
		{"none", "/v1/runs", "", 401},
		{"wrong", "/v1/runs", "Bearer wrong-horse-battery!", 401},
		{"prefix", "/v1/runs", "Bearer " + token[:8], 401},
		{"other scheme", "/v1/runs", "Basic " + token, 401},
		{"bare", "/v1/runs", token, 401},
		{"right", "/v1/runs", "Bearer " + token, 200},
		{"right, in small letters", "/v1/runs", "bearer " + token, 200},
		{"second", "/v1/runs", "Bearer " + other, 200},
		{"unknown path", "/nothing", "", 401},
		{"document", "/openapi.json", "", 401},
		{"health", "/healthz", "", 200},
		{"readiness", "/readyz", "", 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := *f
			f.t = t
			a := f.want(f.do("GET", tt.path, "", "Authorization", tt.header), tt.status)
			if tt.status == 401 && a.header.Get("WWW-Authenticate") == "" {
				t.Error("no WWW-Authenticate")
			}
		})
	}
}

func TestStrangersAreKeptOut(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	f.refused(f.do("GET", "/v1/runs", "", "Host", "evil.example:8080"), 403, "forbidden", "evil.example")
	f.refused(f.do("POST", "/v1/runs", "{}", "Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site"),
		403, "forbidden")
	f.want(f.do("GET", "/v1/runs", "", "Host", "localhost:8080"), 200)
	f.want(f.do("GET", "/v1/runs", "", "Host", "[::1]:8080"), 200)
}

func TestOpenServersNeedTokens(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		listen string
		tokens []string
		ok     bool
	}{
		{"127.0.0.1:8080", nil, true},
		{"localhost:8080", nil, true},
		{"[::1]:8080", nil, true},
		{":8080", nil, false},
		{"0.0.0.0:8080", nil, false},
		{"10.1.2.3:8080", nil, false},
		{"example.com:8080", nil, false},
		{"", nil, false},
		{":8080", []string{"correct-horse-battery"}, true},
		{":8080", []string{"short"}, false},
		{"127.0.0.1:8080", []string{""}, false},
	} {
		err := api.Config{Listen: tt.listen, Tokens: tt.tokens}.Validate()
		if (err == nil) != tt.ok {
			t.Errorf("listen %q with %d tokens: %v", tt.listen, len(tt.tokens), err)
		}
		if err != nil && len(tt.tokens) == 0 && !strings.Contains(err.Error(), "MILLRACE_TOKENS") {
			t.Errorf("the error does not say what to do: %v", err)
		}
	}
	// The address that is really listened on is what counts.
	f := serve(t, nil)
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.server.Serve(context.Background(), l); err == nil {
		t.Error("served every interface without a token")
	}
}

func TestRedisUnavailableIsRetryable(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	f.start()
	f.attach()
	f.redis.Close()
	for _, path := range []string{"/v1/runs/demo/steps/0/claim?generation=1&wait=10s", "/v1/runs/demo/trainer"} {
		a := f.do("POST", path, "")
		f.refused(a, 503, "unavailable")
		if !a.problem().Retryable || a.header.Get("Retry-After") == "" {
			t.Errorf("not retryable: %s %v", a.body, a.header)
		}
	}
}

func TestControlUnavailableDoesNotStopTheTrainer(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	f.start()
	f.ready(0, 1)
	f.attach()
	f.control.broken = rollout.Refuse(rollout.Unavailable, "Temporal does not answer")
	f.refused(f.do("POST", "/v1/runs", `{"name":"two"}`), 503, "unavailable", "Temporal")
	f.want(f.do("POST", "/v1/runs/demo/steps/0/claim?generation=1", ""), 200)
	f.want(f.do("PUT", "/v1/runs/demo/steps/0", `{"generation":1,"wall_seconds":1}`), 201)
}

// TestNullIsNoValue: it is refused by name, and not taken for a field that was left out.
func TestNullIsNoValue(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	f.start()
	for _, tt := range []struct{ method, path, body, field string }{
		{"PATCH", "/v1/runs/demo", `{"steps":null,"buffer":{"depth":3}}`, "body.steps"},
		{"POST", "/v1/runs/demo/trainer", `{"resume_from":null}`, "body.resume_from"},
		{"PUT", "/v1/engines/a", `{"url":"http://127.0.0.1:1","max_in_flight":null}`, "body.max_in_flight"},
	} {
		f.refused(f.do(tt.method, tt.path, tt.body, "Content-Type", "application/json"), 422, "invalid", tt.field)
	}
}
