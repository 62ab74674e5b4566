package program

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestWebhook: what it is sent, and what comes of its answer. What is wrong with a connection is told without the URL.
func TestWebhook(t *testing.T) {
	t.Parallel()
	var sent string
	mux := http.NewServeMux()
	mux.HandleFunc("/good", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent = r.Method + " " + r.Header.Get("Authorization") + " " + r.Header.Get("Content-Type") + " " + string(body)
		_, _ = io.WriteString(w, `{"reward": 1}`)
	})
	mux.Handle("/elsewhere", http.RedirectHandler("/good", http.StatusTemporaryRedirect))
	mux.HandleFunc("/endless", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat(" ", mostAnswer+1))
	})
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"reward": 1}`)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	gone := httptest.NewServer(mux)
	gone.Close()
	for _, tt := range []struct {
		url    string
		how    How
		reason string
	}{
		{server.URL + "/good", Played, ""},
		{server.URL + "/elsewhere", Failed, "the webhook answers 307"},
		{server.URL + "/endless", Failed, "more than 1048576 bytes"},
		{server.URL + "/cut", Left, "unexpected EOF"},
		{gone.URL + "/x?token=secret", Left, "the webhook cannot be reached: "},
	} {
		sent = ""
		w := &Webhook{URL: tt.url, Token: "tok", HTTP: server.Client()}
		e := w.Play(t.Context(), game())
		if e.How != tt.how || !strings.Contains(e.Reason, tt.reason) || strings.Contains(e.Reason, "secret") {
			t.Errorf("%s: %+v", tt.url, e)
		}
		const want = "POST Bearer tok application/json {\"scenario\": {\"seed\": 7}}\n"
		if (sent != "") != (tt.how == Played) || sent != "" && sent != want {
			t.Errorf("%s was sent %q", tt.url, sent)
		}
	}
	ctx, end := context.WithCancel(t.Context())
	end()
	if e := (&Webhook{URL: server.URL, HTTP: server.Client()}).Play(ctx, game()); e.How != Left {
		t.Errorf("after the game's end: %+v", e)
	}
}
