package server

import (
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/face/access"
)

const pageTokens = `tokens:
  - {name: "op", role: "operator", runs: [], sha256: %OP%}
  - {name: "eye", role: "reader", runs: ["demo-*"], sha256: %EYE%}
`

// visitor is a browser without scripts: it keeps cookies and says where its forms are from.
type visitor struct {
	*served
	cookie string
}

func (v *visitor) ask(method, path, site, form string) (response, []*http.Cookie) {
	v.t.Helper()
	req, err := http.NewRequest(method, v.url+path, strings.NewReader(form))
	if err != nil {
		v.t.Fatal(err)
	}
	if form != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if site != "" {
		req.Header.Set("Sec-Fetch-Site", site)
	}
	if v.cookie != "" {
		req.Header.Set("Cookie", v.cookie)
	}
	resp, err := v.http.Transport.RoundTrip(req)
	if err != nil {
		v.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return response{resp.StatusCode, resp.Header, string(body)}, resp.Cookies()
}

func (v *visitor) login(token string) {
	v.t.Helper()
	got, cookies := v.ask("POST", "/login", "same-origin", url.Values{"token": {token}}.Encode())
	if got.status != http.StatusSeeOther || len(cookies) != 1 {
		v.t.Fatalf("login: %d %s", got.status, got.body)
	}
	c := cookies[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure || c.Path != "" {
		v.t.Errorf("the cookie is %v", c)
	}
	if strings.Contains(c.Value, token) || c.MaxAge > 7*24*3600 {
		v.t.Errorf("the cookie holds the token, or for long: %v", c)
	}
	v.cookie = c.Name + "=" + c.Value
}

func TestPageWithTokens(t *testing.T) {
	t.Parallel()
	operator, reader := access.NewToken(), access.NewToken()
	file := t.TempDir() + "/tokens.yaml"
	lines := strings.NewReplacer("%OP%", access.HashOf(operator).String(), "%EYE%",
		access.HashOf(reader).String()).Replace(pageTokens)
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	v := &visitor{served: serveAPI(t, "name: rl-production\nauth: {tokens_file: "+file+"}\n", nil)}

	got, _ := v.ask("GET", "/", "", "")
	if got.status != http.StatusSeeOther || got.header.Get("Location") != "./login?next=" {
		t.Errorf("without a token: %d to %q", got.status, got.header.Get("Location"))
	}
	if got, _ = v.ask("GET", "/runs/demo-1", "", ""); got.header.Get("Location") != "../login?next=runs/demo-1" {
		t.Errorf("a run without a token leads to %q", got.header.Get("Location"))
	}
	if got, _ = v.ask("GET", "/login", "", ""); !strings.Contains(got.body, `name="token"`) {
		t.Errorf("the form is %s", got.body)
	}
	if got, _ = v.ask("POST", "/login", "same-origin", "token=nobody-has-this-token"); got.status != 401 ||
		strings.Contains(got.body, "nobody-has-this-token") {
		t.Errorf("a wrong token: %d %s", got.status, got.body)
	}
	for _, site := range []string{"cross-site", "same-site", "none", ""} {
		if got, _ = v.ask("POST", "/login", site, "token="+operator); got.status != http.StatusForbidden {
			t.Errorf("a form from %q: %d", site, got.status)
		}
	}

	v.login(operator)
	got, _ = v.ask("GET", "/", "", "")
	if got.status != http.StatusOK || !strings.Contains(got.body, "op, operator") ||
		!strings.Contains(got.body, "Engines") || !strings.Contains(got.body, "rl-production, Millrace</title>") {
		t.Errorf("an operator is shown %d %s", got.status, got.body)
	}
	if got.header.Get("Cache-Control") != "no-store" || !strings.Contains(got.header.Get("Content-Security-Policy"),
		"default-src 'none'") || strings.Contains(got.header.Get("Content-Security-Policy"), "unsafe") {
		t.Errorf("the page's header is %v", got.header)
	}
	if got, _ = v.ask("GET", "/data/status", "", ""); got.status != 200 ||
		!strings.Contains(got.body, `"name":"rl-production"`) {
		t.Errorf("data: %d %s", got.status, got.body)
	}
	if got, _ = v.ask("GET", "/v1/status", "", ""); got.status != http.StatusUnauthorized {
		t.Errorf("the cookie opens the API: %d", got.status)
	}

	v.login(reader)
	if got, _ = v.ask("GET", "/", "", ""); strings.Contains(got.body, ">Engines<") || got.status != http.StatusOK {
		t.Errorf("a reader of some runs is shown the fleet: %d %s", got.status, got.body)
	}
	if got, _ = v.ask("GET", "/runs/other", "", ""); got.status != http.StatusForbidden {
		t.Errorf("a run of others: %d", got.status)
	}
	if got, cookies := v.ask("POST", "/logout", "same-origin", ""); got.status != http.StatusSeeOther ||
		cookies[0].MaxAge >= 0 {
		t.Errorf("logout: %d %v", got.status, cookies)
	}
	if got, _ = v.ask("GET", "/", "", ""); got.status != http.StatusSeeOther {
		t.Errorf("the session goes on after it was ended: %d", got.status)
	}

	v.login(operator)
	changed := strings.ReplaceAll(lines, access.HashOf(operator).String(), access.HashOf("another").String())
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	v.until("the session ends with its token", func() bool {
		got, _ := v.ask("GET", "/", "", "")
		return got.status == http.StatusSeeOther
	})
}

// Whoever guesses tokens by the page is stopped as one who guesses at the API.
func TestPageCountsGuesses(t *testing.T) {
	t.Parallel()
	v := &visitor{served: serveAPI(t, "", map[string]string{"MILLRACE_TOKENS": access.NewToken()})}
	for range 40 {
		v.cookie = "millrace_session=nobody-has-this-session"
		if got, _ := v.ask("GET", "/", "", ""); got.status == http.StatusTooManyRequests {
			return
		}
	}
	t.Error("40 guesses were answered")
}

// What is no page is the API's, and a page of another name for this machine is shown nothing.
func TestPageBesideTheAPI(t *testing.T) {
	t.Parallel()
	v := &visitor{served: serveAPI(t, "", nil)}
	if got, _ := v.ask("GET", "/nothing", "", ""); got.status != 404 ||
		!strings.Contains(got.body, "urn:millrace:problem") {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got, _ := v.ask("GET", "/runs/nobody", "", ""); got.status != 404 || !strings.Contains(got.body, "<main") {
		t.Errorf("a run that is none: %d %s", got.status, got.body)
	}
	req, err := http.NewRequest("GET", v.url+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "rebound.example"
	resp, err := v.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("by another name: %d", resp.StatusCode)
	}
}
