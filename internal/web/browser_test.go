package web

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/millrace/millrace/internal/web/browser"
)

// A visitor logs in and clicks from the runs to a token, and pauses the run: every page comes, is as wide as a
// telephone, loads nothing from elsewhere, has no error on the console, and says what the API says.
func TestInABrowser(t *testing.T) {
	t.Parallel()
	path, err := browser.Find()
	if err != nil {
		t.Skip("the pages are not tried in a browser: ", err)
	}
	s := newService(12)
	s.token = "a-token-of-an-operator"
	server := site(t, s)
	b, err := browser.Start(context.Background(), path, server.URL)
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
	must(b.Do(chromedp.SendKeys("#token", s.token)))
	must(b.Click("main button"))
	says("main", "The trainer waits 3 s of 13 s.", "2 ready, 1 in flight, 1 queued", "12 of 20000")

	must(b.Open("/"))
	says("main", "demo", "12 of 20000", "engine-0", "1,234 tok/s", "56,789 tok/s", "75 %")
	must(b.Click(`a[href="runs/demo"]`))
	says("#charts", "Over time")
	must(b.Click(`#run table a[href="demo/steps/11"]`))
	says("main", "Step 11 of demo", "completed the batch")
	must(b.Open("/runs/demo/steps/0"))
	must(b.Click(`a[href="../groups/1"]`))
	says("main", "Group 1 of demo", "0.375", "+1.25", "timeout")
	must(b.Click(`a[href="../games/1/0"]`))
	says("main", "A PAR - BUR", "bounce", "<script>alert(1)</script>")
	must(b.Click(`a[href="0/turns/0"]`))
	says("main", "Turn 0: FRANCE", "<script>alert(1)</script>", "[U+202E]evil")

	must(b.Open("/runs/demo"))
	must(b.Click(`a[href="demo/do/pause"]`))
	says("main", "launches no more games")
	must(b.Click("main button"))
	says("h1", "paused")
	s.mu.Lock()
	s.paused = false
	s.mu.Unlock()
	must(b.Do(chromedp.Poll(`document.querySelector("h1").textContent.includes("running")`, nil,
		chromedp.WithPollingTimeout(time.Minute)))) // nobody reloaded it
	must(b.Click(`header button`))
	says("main", "Token of this server")
	for _, fault := range b.Faults() {
		t.Error(fault)
	}
}
