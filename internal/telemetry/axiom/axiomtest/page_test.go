package axiomtest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/telemetry/axiom/axiomtest"
)

// get fetches a page without a token.
func get(t *testing.T, fake *axiomtest.Server, path string) (*http.Response, string) {
	t.Helper()
	resp, err := clientOf(fake).Get("http://axiom.test" + path)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// TestPageNeedsNothingElse: the page and what it names come from the fake alone, and nothing is allowed from elsewhere.
func TestPageNeedsNothingElse(t *testing.T) {
	t.Parallel()
	fake := &axiomtest.Server{Token: "xaat-other"}
	for _, path := range []string{"/", "/fake/page.css", "/fake/page.js"} {
		resp, body := get(t, fake, path)
		if resp.StatusCode != 200 || !strings.Contains(resp.Header.Get("Content-Security-Policy"), "default-src 'self'") {
			t.Errorf("%s: %v", path, resp)
		}
		for _, link := range regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(body, -1) {
			if link[1] == "data:," {
				continue
			}
			if resp, _ := get(t, fake, link[1]); !strings.HasPrefix(link[1], "/") || resp.StatusCode != 200 {
				t.Errorf("%s names %s", path, link[1])
			}
		}
		if strings.Contains(body, "https://") || strings.Contains(body, "//cdn") {
			t.Errorf("%s names another server", path)
		}
	}
	_, page := get(t, fake, "/")
	for _, want := range []string{`lang="en"`, `name="viewport"`, `aria-live="polite"`, `<label for="apl">`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %s", want)
		}
	}
}

// TestPageShowsWhatArrives: rows by kind, a query's table and chart, monitors, and errors with their place.
func TestPageShowsWhatArrives(t *testing.T) {
	t.Parallel()
	fake := &axiomtest.Server{}
	post(t, fake, ingestPath, ndjson, `{"kind":"a","n":1,"_time":"2026-01-02T03:04:05Z"}
{"kind":"a","n":3,"_time":"2026-01-02T03:14:05Z"}
{"kind":"b","s":"x"}`)
	post(t, fake, "/v2/monitors", "application/json", `{"name":"m","type":"Threshold","operator":"Below","threshold":2,
		"aplQuery":"['d'] | where kind == 'b' | summarize n = count()","intervalMinutes":1,"rangeMinutes":5}`)
	_, text := get(t, fake, "/fake/state")
	var state struct {
		Requests int
		Datasets []struct {
			Rows, Fields, Limit int
			Kinds               []struct {
				Kind string
				Rows int
			}
		}
		Monitors []struct {
			Fires bool
			Value float64
		}
	}
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		t.Fatal(err)
	}
	if d := state.Datasets[0]; d.Rows != 3 || d.Fields != 5 || d.Limit != 256 || d.Kinds[0].Rows != 2 ||
		state.Requests != 1 {
		t.Errorf("%s", text)
	}
	if m := state.Monitors[0]; !m.Fires || m.Value != 1 {
		t.Errorf("%+v", state.Monitors)
	}
	status, body := post(t, fake, "/fake/query", "application/json",
		`{"apl":"['d'] | where kind == 'a' | summarize n = sum(n) by bin(_time, 5m)"}`)
	if status != 200 || !strings.Contains(body, `"count":2`) || !strings.Contains(body, "<svg") &&
		!strings.Contains(body, `\u003csvg`) {
		t.Errorf("%d %s", status, body)
	}
	if status, body = post(t, fake, "/fake/query", "application/json", `{"apl":"['d'] | wherever"}`); status != 400 ||
		!strings.Contains(body, "line 1, column 9") {
		t.Errorf("%d %s", status, body)
	}
}
