package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"
)

// chronicle is a server with a run's events, of which it lists two at a time.
type chronicle struct {
	mu     sync.Mutex
	events []string // data
	down   int      // calls to answer with 503
	asked  []string
}

func (c *chronicle) add(data ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, data...)
}

func (c *chronicle) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, r.URL.RawQuery)
	if c.down > 0 {
		c.down--
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"status":503,"detail":"the server is stopping"}`)
		return
	}
	after, _ := strconv.Atoi(r.URL.Query().Get("after"))
	var list []string
	next := after
	for i := after; i < min(after+2, len(c.events)); i++ {
		next = i + 1
		list = append(list, fmt.Sprintf(`{"id":"%d","kind":"group_dropped","data":%s}`, next, c.events[i]))
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"events":[%s],"next":"%d"}`, strings.Join(list, ","), next)
}

func dropped(seq int) string {
	return fmt.Sprintf(`{"kind":"group_dropped","_time":"2026-11-21T12:00:0%dZ","group_seq":%d,"code":"timeout"}`, seq,
		seq)
}

// paper is what a command writes, and a signal after so many lines.
type paper struct {
	mu    sync.Mutex
	text  strings.Builder
	lines int
	full  func(lines int)
}

func (p *paper) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines += strings.Count(string(b), "\n")
	n, err := p.text.Write(b)
	p.full(p.lines)
	return n, err
}

// TestEventsFollow lists the last events, and then everything that happens, across a restart of the server, once.
func TestEventsFollow(t *testing.T) {
	t.Parallel()
	c := &chronicle{events: []string{dropped(1), dropped(2), dropped(3)}}
	server := httptest.NewServer(c)
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var once sync.Once
	out := &paper{full: func(lines int) {
		once.Do(func() {
			c.mu.Lock()
			c.down = 1
			c.mu.Unlock()
			c.add(dropped(4), dropped(5), dropped(6))
		})
		if lines >= 5 {
			cancel()
		}
	}}
	var said strings.Builder
	root := &cobra.Command{Use: "millrace", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(Commands(Deps{
		Stdout: out, Stderr: &said, HTTP: server.Client(),
		Getenv: func(name string) string { return map[string]string{"MILLRACE_SERVER": server.URL}[name] },
	})...)
	root.SetArgs(strings.Fields("events demo --follow -o ndjson --last 2 --since 5s --game demo/4/1 --code timeout"))
	if err := root.ExecuteContext(ctx); ExitCode(err) != ExitInterrupted {
		t.Errorf("ended with %v", err)
	}
	var ids []string
	for line := range strings.Lines(out.text.String()) {
		id, _, _ := strings.Cut(strings.TrimPrefix(line, `{"run":"demo","id":"`), `"`)
		ids = append(ids, id)
	}
	if got := strings.Join(ids, " "); got != "2 3 4 5 6" {
		t.Errorf("events %s, want 2 3 4 5 6", got)
	}
	if !strings.Contains(said.String(), "waiting for it") {
		t.Errorf("an absence of the server is not told: %q", said.String())
	}
	if c.asked[0] != "code=timeout&facts=true&game=4%2F1&limit=1000&since=5s" ||
		c.asked[1] != "after=2&code=timeout&facts=true&game=4%2F1&limit=1000" {
		t.Errorf("asked %q", c.asked)
	}
}

func TestEventsTable(t *testing.T) {
	t.Parallel()
	page := map[string]reply{"GET /v1/runs/demo/events": {200, `{"next":"","events":[` +
		`{"id":"1-0","kind":"rollout_error","data":{"kind":"rollout_error","_time":"2026-11-21T12:00:01Z","ref":{"run":"demo","seq":4,"sample":1},"code":"timeout","failure":"no\nanswer","attempt":2,"final":true}},` +
		`{"id":"2-0","kind":"of_tomorrow","data":{"kind":"of_tomorrow","x":1}}]}`}}
	got, _ := command(t, page, "", nil, "events", "demo", "--last", "2")
	for _, want := range []string{"  ERROR  rollout_error     4/1: timeout, attempt 2, given up: no answer\n",
		"-                    INFO   of_tomorrow       {\"kind\":\"of_tomorrow\",\"x\":1}\n"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("%q is missing in\n%s (%v)", want, got.stdout, got.err)
		}
	}
	for args, code := range map[string]int{"events demo -o ndjson": ExitOK, "events demo -o json": ExitOK,
		"run list -o ndjson": ExitUsage, "events demo --last -1": ExitUsage, "run watch demo -o yaml": ExitUsage} {
		if got, _ := command(t, page, "", nil, strings.Fields(args)...); got.code != code {
			t.Errorf("%s: %d, want %d: %v", args, got.code, code, got.err)
		}
	}
}

// TestWatchInLines writes a line of JSON per view, for programs.
func TestWatchInLines(t *testing.T) {
	t.Parallel()
	over := strings.Replace(runDocument, `"state":"running"`, `"state":"completed"`, 1)
	got, _ := command(t, map[string]reply{"GET /v1/runs/demo": {200, over}}, "", nil, "run", "watch", "demo", "-o", "json")
	if got.err != nil || strings.Count(got.stdout, "\n") != 1 || !strings.HasPrefix(got.stdout, `{"spec":{"name":"demo"`) {
		t.Errorf("%v, %q", got.err, got.stdout)
	}
}
