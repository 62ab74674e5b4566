package web

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/millrace/millrace/internal/face/access"
	"github.com/millrace/millrace/internal/kit/panics"
	"github.com/millrace/millrace/internal/kit/processortime"
	"github.com/millrace/millrace/internal/rollout"
)

var allPages = []string{"/", "/runs/demo", "/runs/demo/curve", "/runs/demo/steps", "/runs/demo/games",
	"/runs/demo/events", "/runs/demo/spec", "/runs/demo/steps/5", "/runs/demo/groups/1", "/runs/demo/games/1/0",
	"/runs/demo/games/1/0/turns/0", "/engines/engine-0", "/fleet",
	"/runs/demo/do/pause", "/runs/demo/do/stop",
	"/runs/demo/do/set?set=buffer.depth=4", "/engines/engine-0/do/drain", "/engines/do/add"}

// What anybody has written is text on every page: nothing of it is markup, commands a terminal, or turns the page.
func TestHostileTextIsHarmless(t *testing.T) {
	t.Parallel()
	s := newService(10)
	server := site(t, s)
	for _, page := range allPages {
		body := get(t, server, page)
		for _, bad := range []string{"<script>alert", "<img src=x", "\x1b", "\u202e", "\u2066", "</pre></main>", "<b>"} {
			if strings.Contains(body, bad) {
				t.Errorf("%s has %q", page, bad)
			}
		}
		if inline := regexp.MustCompile(`(?i) on[a-z]+=|style=|javascript:|<style|http://www\.w3`).FindString(
			strings.ReplaceAll(body, "onerror=alert", "")); inline != "" {
			t.Errorf("%s has %q, which its own policy forbids", page, inline)
		}
	}
	turn := get(t, server, "/runs/demo/games/1/0/turns/0")
	for _, want := range []string{`<a href="1" rel="next">`, "&lt;script&gt;alert(1)", "\u241b[31mred", "[U&#43;202E]evil[U&#43;202C]", `class="p5"`,
		": 0.25 s in the queue, 3.5 s at engines, in 3 attempts", `data-label="attempt">2</th>`, "after</th>"} {
		if !strings.Contains(turn, want) {
			t.Errorf("the turn's page lacks %q", want)
		}
	}
}

// The fleet's page says what is wanted and why, what decisions were to do and did, and how each setting is changed; one
// that is not scaled says how that is turned on.
func TestFleetPage(t *testing.T) {
	t.Parallel()
	s := newService(1)
	server := site(t, s)
	body := get(t, server, "/fleet")
	for _, want := range []string{"<dt>wanted</dt><dd", "1 to 3", "demo: 30 s to 11 s", "demo: 30 s to 12 s",
		"$6.00 per hour of $20.00", "millrace engine scaling max=8", "<strong>an operator</strong>", `href="engines/engine-0"`,
		"30 s with 1 engine<", "compute C", "works", "The newest look at the fleet is",
		`<strong id="engines">Engines wanted and there`} {
		if !strings.Contains(body, want) {
			t.Errorf("the fleet's page lacks %q", want)
		}
	}
	if overview := get(t, server, "/"); !strings.Contains(overview, "2 of 3 wanted engines, 1 starting") {
		t.Error("the overview does not say how the fleet is scaled")
	}
	unscaled := newService(1)
	unscaled.unscaled = true
	server = site(t, unscaled)
	if body := get(t, server, "/fleet"); !strings.Contains(body, "there is nothing at /v1/fleet") {
		t.Error("the page of a fleet that is not scaled does not say why")
	}
	if overview := get(t, server, "/"); strings.Contains(overview, "wanted engine") {
		t.Error("the overview speaks of scaling where there is none")
	}
}

// A group whose games are gone says what would have kept them, and links to none of them.
func TestGroupWithoutGames(t *testing.T) {
	t.Parallel()
	s := newService(1)
	s.gone = true
	body := get(t, site(t, s), "/runs/demo/groups/1")
	if !strings.Contains(body, "cannot be shown: there is nothing at /v1/runs/demo/games/1/0.") ||
		strings.Contains(body, "games/1/0\"") {
		t.Errorf("the group's page: %s", body)
	}
}

// An engine's page says what each of its adapters is used for, by all runs together.
func TestAdaptersHaveTheirUses(t *testing.T) {
	t.Parallel()
	body := get(t, site(t, newService(1)), "/engines/engine-0")
	for _, want := range []string{`runs using it">2<`, `games in play">33<`, `requests here">18<`, `queued">5<`,
		`games in play">0<`} {
		if !strings.Contains(body, want) {
			t.Errorf("the engine's page lacks %q", want)
		}
	}
}

// A model that writes a megabyte makes no page of a megabyte.
func TestLongTextIsCut(t *testing.T) {
	t.Parallel()
	s := newService(1)
	s.text = strings.Repeat("\u202e<\x1b🙂", 100_000)
	server := site(t, s)
	for _, page := range []string{"/runs/demo/games/1/0", "/runs/demo/games/1/0/turns/0"} {
		if body := get(t, server, page); len(body) > 600<<10 {
			t.Errorf("%s has %d bytes", page, len(body))
		} else if page != "/runs/demo/games/1/0" && !strings.Contains(body, "more bytes are not shown here") {
			t.Errorf("%s does not say that it is cut", page)
		}
	}
}

// Every link of every page leads to something.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	server := site(t, newService(10))
	links := regexp.MustCompile(`(?:href|src)="([^"]+)"`)
	seen := map[string]bool{}
	for _, page := range allPages {
		for _, m := range links.FindAllStringSubmatch(get(t, server, page), -1) {
			base, err := url.Parse(server.URL + page)
			if err != nil {
				t.Fatal(err)
			}
			to, err := base.Parse(strings.ReplaceAll(m[1], "&amp;", "&"))
			if err == nil && to.Host == "ui.test" { // Temporal's
				seen[to.String()] = true
				continue
			}
			if err != nil || to.Host != base.Host {
				t.Errorf("%s links to %s", page, m[1])
				continue
			}
			to.Fragment = ""
			known := []string{"/events", "/diagnosis", "/diagnosis?step=5", "/steps"}
			other := slices.ContainsFunc(known, func(end string) bool { return strings.HasSuffix(to.RequestURI(), end) })
			neighbour := strings.Contains(to.Path, "/turns/1") || strings.Contains(to.Path, "/steps/10") ||
				strings.Contains(to.Path, "/runs/demo/groups/")
			if seen[to.String()] || other || neighbour {
				continue
			}
			seen[to.String()] = true
			get(t, server, to.RequestURI())
		}
	}
	for _, workflow := range []string{"http://ui.test/run/demo", "http://ui.test/group/demo/1", "http://ui.test/fleet"} {
		if !seen[workflow] {
			t.Errorf("nothing leads to %s", workflow)
		}
	}
	if len(seen) < 20 {
		t.Errorf("only %d links", len(seen))
	}
}

// A change is asked for twice: the first page says what will happen, the second call does it, in the visitor's name,
// and only from this server's own pages.
func TestActions(t *testing.T) {
	t.Parallel()
	s := newService(3)
	s.token = "a-token-of-an-operator"
	server := site(t, s)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	send := func(token, site, path, form string) int {
		t.Helper()
		req, err := http.NewRequest("POST", server.URL+path, strings.NewReader(form))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Sec-Fetch-Site", site)
		req.AddCookie(&http.Cookie{Name: cookieName, Value: token})
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	operator, _ := s.sessions.Begin(t.Context(), access.HashOf(s.token), 0)
	reader, _ := s.sessions.Begin(t.Context(), access.HashOf("reader-"+s.token), 0)
	for _, site := range []string{"cross-site", "same-site", "none"} { // none: typed, or of another program
		if got := send(operator, site, "/runs/demo/do/pause", ""); got != http.StatusForbidden {
			t.Errorf("a form from %s: %d", site, got)
		}
	}
	if got := send(reader, "same-origin", "/runs/demo/do/pause", ""); got != http.StatusForbidden {
		t.Errorf("a reader's form: %d", got)
	}
	for _, path := range []string{"/runs/demo/do/set", "/engines/do/add"} {
		if got := send(operator, "same-origin", path, ""); got != http.StatusUnprocessableEntity {
			t.Errorf("%s of an empty form: %d", path, got)
		}
	}
	if len(s.changes) > 0 {
		t.Errorf("changed: %q", s.changes)
	}
	for _, one := range []struct{ path, form, want string }{
		{"/runs/demo/do/pause", "", `PATCH /v1/runs/demo {"paused":true}`},
		{"/runs/demo/do/resume", "", `PATCH /v1/runs/demo {"paused":false}`},
		{"/runs/demo/do/set", "set=buffer.depth%3D4", `PATCH /v1/runs/demo {"buffer":{"depth":4}}`},
		{"/runs/demo/do/stop", "reason=enough", `POST /v1/runs/demo/stop {"reason":"enough"}`},
		{"/engines/engine-0/do/drain", "", `POST /v1/engines/engine-0/drain `},
		{"/engines/engine-0/do/remove", "", `DELETE /v1/engines/engine-0 `},
		{"/engines/do/add", "url=http%3A%2F%2Fgpu%3A8000", `PUT /v1/engines/gpu-8000 {"url":"http://gpu:8000"}`},
	} {
		if got := send(operator, "same-origin", one.path, one.form); got != http.StatusSeeOther {
			t.Errorf("%s: %d", one.path, got)
			continue
		}
		if got := s.changes[len(s.changes)-1]; got != one.want {
			t.Errorf("%s asked for %s, want %s", one.path, got, one.want)
		}
	}
}

// A page of 10,000 steps is small, and a browser that has it already is sent nothing.
func TestLongRunsPage(t *testing.T) {
	t.Parallel()
	server := site(t, newService(10_000))
	body := get(t, server, "/runs/demo")
	for end := time.Now().Add(time.Minute); strings.Contains(body, "still being read"); {
		if time.Now().After(end) {
			t.Fatal("the history is never read")
		}
		body = get(t, server, "/runs/demo")
	}
	if !strings.Contains(body, "10,000</dd><dd class=\"note\">of 20,000") || len(body) > 300_000 {
		t.Errorf("%d bytes", len(body))
	}
	t.Logf("%d bytes", len(body))
}

// What a page of 10,000 steps takes, as a browser on this machine sees it: `make bench-page`.
func BenchmarkRunPageOf10000Steps(b *testing.B) {
	server := site(b, newService(10_000))
	for strings.Contains(get(b, server, "/runs/demo"), "still being read") {
	}
	var took []float64
	size, cpu := 0, processortime.Own()
	for b.Loop() { // each page is another one to the cache
		began := time.Now()
		size = len(get(b, server, "/runs/demo?n="+began.Format(time.RFC3339Nano)))
		took = append(took, 1e3*time.Since(began).Seconds())
	}
	b.ReportMetric(1e3*(processortime.Own()-cpu)/float64(len(took)), "cpu-ms/op") // of server and browser
	slices.Sort(took)
	b.ReportMetric(took[len(took)*95/100], "p95-ms")
	b.ReportMetric(float64(size)/1e3, "kB")
}

// A page is made in a goroutine of its own, where nobody else would recover: it fails for who asked alone.
func TestAPageThatPanicsIsAProblem(t *testing.T) {
	t.Parallel()
	kept := newPageCache(panics.Watch{Log: slog.New(slog.DiscardHandler)})
	_, err := kept.Of(t.Context(), "a", fresh, func(context.Context) (made, error) {
		panic("a record breaks it")
	})
	if status, text := statusOf(err); status != http.StatusInternalServerError || text == "" {
		t.Errorf("%v is answered %d %q", err, status, text)
	}
}

// What has buttons, or says that it needs a login, stands in no frame: nobody is led to click on it unseen.
func TestNoPageStandsInAFrame(t *testing.T) {
	t.Parallel()
	server := site(t, newService(2))
	for _, page := range []string{"/", "/login", "/runs/demo", "/fleet", "/runs/none", "/data/status"} {
		resp, err := server.Client().Get(server.URL + page)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if h := resp.Header; !strings.Contains(h.Get("Content-Security-Policy"), "; frame-ancestors 'none'") ||
			h.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: %d, %v", page, resp.StatusCode, h)
		}
	}
}

// A page of what goes on says so to the page's script, which asks for it again.
func TestPagesThatAreLive(t *testing.T) {
	t.Parallel()
	server := site(t, newService(10))
	for page, live := range map[string]bool{"/": true, "/runs/demo": true, "/engines/engine-0": true, "/fleet": true,
		"/runs/demo/steps/5": false, "/runs/demo/games/1/0": false} {
		if strings.Contains(get(t, server, page), "<body data-live>") != live {
			t.Errorf("%s: want live %v", page, live)
		}
	}
}

// What the API answers is passed on as it comes: the server holds no large answer for a browser that reads slowly.
func TestDataIsPassedOn(t *testing.T) {
	t.Parallel()
	s := newService(1)
	reached := make(chan struct{})
	goOn := make(chan struct{})
	s.stream = func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"first":1`)) // the browser reads it
		_ = http.NewResponseController(w).Flush()
		close(reached)
		<-goOn
		_, _ = w.Write([]byte(`}`))
	}
	server := site(t, s)
	resp, err := server.Client().Get(server.URL + "/data/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	<-reached
	first := make([]byte, 10)
	if _, err := io.ReadFull(resp.Body, first); err != nil || string(first) != `{"first":1` {
		t.Errorf("before its end: %q, %v", first, err)
	}
	close(goOn)
	rest, err := io.ReadAll(resp.Body)
	if err != nil || string(rest) != "}" || resp.Header.Get("Content-Security-Policy") != policy ||
		resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("the rest: %q, %v, %v", rest, err, resp.Header)
	}
}

// longest is a name that a run may just have.
var longest = "a" + strings.Repeat("-_.w", 15) + "zz"

// Every page of a run with the longest name is there, and says it in whole.
func TestRunNameAtTheLimit(t *testing.T) {
	t.Parallel()
	s := newService(3)
	s.run = longest
	if rollout.RunName(s.run).Validate() != nil || rollout.RunName(s.run+"z").Validate() == nil {
		t.Fatalf("%q is not as long as a name may be", s.run)
	}
	server := site(t, s)
	for _, page := range allPages {
		if strings.HasPrefix(page, "/runs/demo/steps") { // of which there are fewer
			page = "/runs/demo/steps/1"
		}
		body := get(t, server, strings.Replace(page, "demo", s.run, 1))
		if !strings.Contains(body, ` - rl-production, Millrace</title>`) || !strings.Contains(body, `>rl-production</span>`) {
			t.Errorf("%s does not say of which deployment it is", page)
		}
		if strings.Contains(page, "demo") && !strings.Contains(body, s.run) {
			t.Errorf("%s does not say whose it is", page)
		}
	}
}

// Wherever a text of somebody else is shown it is harmless and does not widen the page: a megabyte of
// markup, of a terminal's commands, and of marks that turn the direction.
func TestTextsAtTheLimit(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a hundred megabytes of text, one page after another")
	}
	for _, text := range []string{strings.Repeat("<b>", 350_000), strings.Repeat("\x1b[31m\x9b", 150_000),
		strings.Repeat("\u202e\u2067\xff", 150_000)} {
		s := newService(6)
		s.text, s.reason = text, text
		server := site(t, s)
		for _, page := range allPages {
			body := get(t, server, page)
			for _, bad := range []string{"<b>", "\x1b", "\u009b", "\u202e", "\u2067"} {
				if strings.Contains(body, bad) {
					t.Errorf("%s with %.10q... has %q", page, text, bad)
				}
			}
			if !utf8.ValidString(body) || len(body) > 600<<10 {
				t.Errorf("%s with %.10q... has %d bytes", page, text, len(body))
			}
		}
	}
}

// The curve's tab has what evaluations tell, and a link to each.
func TestEvaluationsAreShown(t *testing.T) {
	t.Parallel()
	page := get(t, site(t, newService(10)), "/runs/demo/curve")
	for _, want := range []string{"64 of 64", "0.875 ± 0.050", "better than v3", `href="../../runs/demo"`} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not on the page", want)
		}
	}
}
