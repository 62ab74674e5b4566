package browser_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/millrace/millrace/trials/browser"
)

// A visitor logs in and clicks from the runs to a token, and pauses the run: every page comes, is as wide as a
// telephone, loads nothing from elsewhere, has no error on the console, and says what the API says.
func TestInABrowser(t *testing.T) {
	t.Parallel()
	path, err := browser.Find()
	if err != nil {
		t.Skip("the pages are not tried in a browser: ", err)
	}
	const token = "a-token-of-an-operator"
	server := servePages(t, "MILLRACE_SERVE_TOKEN="+token)
	b, err := browser.Start(context.Background(), path, server.url)
	if err != nil {
		t.Skip("the browser does not start here: ", err)
	}
	defer b.Close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	says := func(selector string, want ...string) {
		t.Helper()
		got, err := b.Text(selector)
		must(err)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s says %q, and not %q", selector, got, w)
			}
		}
		if beyond, err := b.WidthBeyond(); err != nil || beyond > 0 {
			t.Errorf("a page with %q is %d pixels wider than a telephone, %v", want, beyond, err)
		}
	}
	must(b.Do(chromedp.EmulateViewport(390, 844)))
	must(b.Open("/runs/demo"))
	must(b.Do(chromedp.SendKeys("#token", token)))
	must(b.Click("main button"))
	says("main", "The trainer waits 3 s of 13 s.", "2 ready", "1 in flight, 1 queued, 0 claimed", "of 20,000")
	checkFirstScreen(t, b)

	must(b.Open("/fleet"))
	says("main", "demo waits; ", "1 to 3", "millrace engine scaling max=8")
	must(b.Open("/"))
	says("main", "demo", "12 of 20000", "engine-0", "1,234 tok/s", "56,789 tok/s", "75 %")
	must(b.Click(`a[href="runs/demo"]`))
	says("#charts", "Over time")
	for tab, want := range map[string]string{"curve": "Reward by policy version", "games": "1 game",
		"events": "As lines of a log", "spec": "buffer.max_staleness", "steps": "Latest steps"} {
		must(b.Click(`nav.tabs a[href$="runs/demo/` + tab + `"]`))
		says("main", want)
		says(`nav.tabs a[aria-current="page"]`, tab)
	}
	must(b.Open("/runs/demo/games"))
	must(b.Click(`.choices a[href="?state=failed"]`))
	says(`.choices a[aria-current]`, "failed")
	must(b.Open("/runs/demo/steps"))
	must(b.Click(`#run table a[href$="demo/steps/11"]`))
	says("main", "Step 11 of demo", "completed the batch")
	must(b.Open("/runs/demo/steps/0"))
	must(b.Click(`a[href="../groups/1"]`))
	says("main", "Group 1 of demo", "0.375", "+1.25", "timeout")
	must(b.Click(`a[href="../games/1/0"]`))
	says("main", "A PAR - BUR", "bounce", "<script>alert(1)</script>")
	must(b.Click(`a[href="0/turns/0"]`))
	says("main", "Turn 0: FRANCE", "<script>alert(1)</script>", "[U+202E]evil")

	checkCharts(t, b)
	checkKeyboard(t, b)
	must(b.Open("/runs/demo"))
	must(b.Click(`a[href="demo/do/pause"]`))
	says("main", "launches no more games")
	must(b.Click("main button"))
	says("h1", "paused")
	server.resumeRun()
	must(b.Do(chromedp.Poll(`document.querySelector("h1").textContent.includes("running")`, nil,
		chromedp.WithPollingTimeout(time.Minute)))) // nobody reloaded it
	must(b.Click(`header button`))
	says("main", "Token of this server")
	for _, fault := range b.Faults() {
		t.Error(fault)
	}
}

// A page whose server is frozen, or gone, says within 5 s since when, and says nothing of it when there is news again.
func TestUnavailableServerInABrowser(t *testing.T) {
	path, err := browser.Find()
	if err != nil {
		t.Skip("the pages are not tried in a browser: ", err)
	}
	server := servePages(t)
	b, err := browser.Start(context.Background(), path, server.url)
	if err != nil {
		t.Skip("the browser does not start here: ", err)
	}
	defer b.Close()
	says := func(want bool, patience time.Duration) {
		t.Helper()
		shown := `!document.getElementById("away").hidden && /No news from the server since \d\d:\d\d:\d\d/.test(
			document.getElementById("away").textContent) && document.body.classList.contains("late")`
		if !want {
			shown = `document.getElementById("away").hidden && !document.body.classList.contains("late")`
		}
		if err := b.Do(chromedp.Poll(shown, nil, chromedp.WithPollingTimeout(patience))); err != nil {
			t.Fatalf("says that the server is away: want %t within %v: %v", want, patience, err)
		}
	}
	if err := b.Open("/"); err != nil {
		t.Fatal(err)
	}
	says(false, time.Second)
	for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		if err := server.process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		says(true, 5*time.Second)
		if err := server.process.Signal(syscall.SIGCONT); err == nil && signal == syscall.SIGSTOP {
			says(false, 15*time.Second)
		}
	}
}

// The longest name of a run is no wider than a telephone.
func TestLongNameInABrowser(t *testing.T) {
	path, err := browser.Find()
	if err != nil {
		t.Skip("the pages are not tried in a browser: ", err)
	}
	longest := "a" + strings.Repeat("-_.w", 15) + "zz"
	b, err := browser.Start(context.Background(), path, servePages(t, "MILLRACE_SERVE_RUN="+longest).url)
	if err != nil {
		t.Skip("the browser does not start here: ", err)
	}
	defer b.Close()
	run := "/runs/" + longest
	for _, page := range []string{"/", run, run + "/steps/1", run + "/games/1/0"} {
		if err := errors.Join(b.Do(chromedp.EmulateViewport(390, 844)), b.Open(page)); err != nil {
			t.Fatal(err)
		}
		if beyond, err := b.WidthBeyond(); err != nil || beyond > 0 {
			t.Errorf("%s is %d pixels wider than a telephone, %v", page, beyond, err)
		}
	}
	for _, fault := range b.Faults() {
		t.Error(fault)
	}
}

// checkFirstScreen: a telephone's first screen says the step, its time and what the trainer waits.
func checkFirstScreen(t *testing.T, b *browser.Browser) {
	t.Helper()
	var below []string
	err := b.Do(chromedp.Evaluate(`[...document.querySelectorAll("dl.facts > div")].slice(0, 3)
		.filter((e) => e.getBoundingClientRect().bottom > innerHeight).map((e) => e.innerText)`, &below))
	if err != nil || len(below) > 0 {
		t.Errorf("below a telephone's first screen: %q, %v", below, err)
	}
}

// checkCharts: each chart of a run's page has a text alternative and its values as a table; the page says what the API
// says; pointing says the values of a place, and dragging looks closer at it.
func checkCharts(t *testing.T, b *browser.Browser) {
	t.Helper()
	if err := b.Do(chromedp.EmulateViewport(1440, 900)); err != nil {
		t.Fatal(err)
	}
	if err := b.Open("/runs/demo?from=2026-01-02T03:04:05Z&to=2026-01-02T03:06:45Z"); err != nil { // all of its steps
		t.Fatal(err)
	}
	var differ []string
	compare := `(async () => {
		const wrong = [];
		for (const figure of document.querySelectorAll(".charts figure")) {
			const name = figure.querySelector("strong").id;
			if (!figure.querySelector("svg.panel[role=img][aria-label]")) wrong.push(name + " has no text alternative");
			if (figure.querySelectorAll("tbody tr").length === 0) wrong.push(name + " has no table of its values");
		}
		if (document.querySelectorAll(".charts figure").length < 2) wrong.push("there are too few charts");
		const run = await (await fetch("../data/runs/demo")).json(), page = document.querySelector("main").innerText;
		for (const n of [run.next_step, run.buffer.ready + " ready"])
			if (!page.includes(n)) wrong.push("the page does not say " + n);
		return wrong;
	})()`
	if err := b.Do(chromedp.Evaluate(compare, &differ, awaited)); err != nil {
		t.Fatal(err)
	}
	for _, what := range differ {
		t.Error(what)
	}
	var x, y float64
	place := `(() => { const r = document.querySelector("#step-time").closest("figure").querySelector("svg.panel")
		.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]; })()`
	var at []float64
	if err := b.Do(chromedp.Evaluate(place, &at)); err != nil || len(at) != 2 {
		t.Fatal(at, err)
	}
	x, y = at[0], at[1]
	var tip string
	var crosses int
	err := b.Do(chromedp.MouseEvent(input.MouseMoved, x, y), chromedp.Poll(`!document.getElementById("tip").hidden`, nil),
		chromedp.Evaluate(`document.getElementById("tip").textContent`, &tip),
		chromedp.Evaluate(`document.querySelectorAll("svg.panel .cross").length`, &crosses))
	if err != nil || !strings.HasPrefix(tip, "step ") || !strings.Contains(tip, "train: 10 s") || crosses < 2 {
		t.Errorf("pointing at a column says %q, with %d lines, %v", tip, crosses, err)
	}
	before, err := b.Path()
	if err != nil {
		t.Fatal(err)
	}
	err = b.Do(chromedp.MouseEvent(input.MousePressed, x, y, chromedp.ButtonLeft),
		chromedp.MouseEvent(input.MouseMoved, x+200, y, chromedp.ButtonLeft),
		chromedp.ActionFunc(func(ctx context.Context) error {
			_, err := chromedp.RunResponse(ctx, chromedp.MouseEvent(input.MouseReleased, x+200, y, chromedp.ButtonLeft))
			return err
		}), chromedp.WaitReady("main"))
	after, lost := b.Path()
	if err != nil || lost != nil || after == before || !strings.Contains(after, "from=") {
		t.Errorf("dragging leads from %s to %s, %v, %v", before, after, err, lost)
	}
}

// checkKeyboard goes through a run's page by the tabulator: first to the content, then over every link, button and
// table; times are the reader's, with UTC to be pointed at.
func checkKeyboard(t *testing.T, b *browser.Browser) {
	t.Helper()
	if err := b.Open("/runs/demo"); err != nil {
		t.Fatal(err)
	}
	var wanted int
	reachable := `[...document.querySelectorAll("a[href], button, summary, input")].filter((e) => e.checkVisibility()).length`
	if err := b.Do(chromedp.Evaluate(reachable, &wanted)); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i := range wanted {
		var at string
		err := b.Do(chromedp.KeyEvent("\t"), chromedp.Evaluate(`(() => { const e = document.activeElement;
			return [...document.querySelectorAll("a[href], button, summary, input")].indexOf(e) + " " + e.className; })()`, &at))
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 && !strings.HasSuffix(at, " skip") {
			t.Errorf("the first stop is %q", at)
		}
		seen[at] = true
	}
	if len(seen) < wanted {
		t.Errorf("%d of %d links, buttons and tables are reached by the keyboard", len(seen), wanted)
	}
	var wrong int
	times := `[...document.querySelectorAll("main time")].filter((e) => !e.title.endsWith(" UTC") || e.textContent.includes("UTC")).length`
	if err := b.Do(chromedp.Evaluate(times, &wrong)); err != nil || wrong > 0 {
		t.Errorf("%d times are not the reader's with UTC beside it, %v", wrong, err)
	}
	if err := b.Do(chromedp.EmulateViewport(390, 844)); err != nil {
		t.Fatal(err)
	}
}

// awaited has a script's promise end.
func awaited(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

// pages is the operator's page with the run of its own tests, in a process that ends with the test.
type pages struct {
	url     string
	input   io.Writer
	process *os.Process
}

func (p pages) resumeRun() { fmt.Fprintln(p.input) }

// servePages starts the product's test that serves its pages.
func servePages(t *testing.T, env ...string) pages {
	t.Helper()
	const source = "../../internal/face/web"
	program := filepath.Join(t.TempDir(), "web.test") // go test would give it no standard input
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", program, ".")
	build.Dir = source
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the pages' tests: %v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.v", "-test.run", "^TestServeForABrowser$")
	cmd.Dir = source
	cmd.Env = append(append(os.Environ(), "MILLRACE_SERVE_PAGES=1"), env...)
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close()
		_ = cmd.Wait() // what went wrong there is seen here
	})
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if _, url, ok := strings.Cut(lines.Text(), "serving "); ok {
			return pages{url, input, cmd.Process}
		}
	}
	t.Fatal("the pages are not served")
	return pages{}
}
