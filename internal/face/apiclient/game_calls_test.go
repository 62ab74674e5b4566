package apiclient

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestLatestGame takes the newest group that has begun, and passes over those of which nothing is kept. Groups that
// were given up are among the dropped ones: of the 99 here, the newest is number 98, however many failed.
func TestLatestGame(t *testing.T) {
	t.Parallel()
	const counts = `{"buffer":{"queued":5,"in_flight":2,"ready":1,"claimed":1,"completed":4,"dropped":91},"failures":{"timeout":91}}`
	for _, tt := range []struct {
		name string
		kept string
		want string
	}{
		{"the newest", "GET /v1/runs/demo/games/98/0", "demo/98/0"},
		{"the newest has not finished a phase", "GET /v1/runs/demo/games/97/0", "demo/97/0"},
		{"there is no hundredth", "GET /v1/runs/demo/games/99/0", ""},
		{"queued groups have not begun", "GET /v1/runs/demo/games/102/0", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			service := http.NewServeMux()
			for call, answer := range map[string]string{"GET /v1/runs/demo": counts, tt.kept: `{"phases":[]}`} {
				service.HandleFunc(call, func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("Authorization") != "Bearer secret" {
						w.WriteHeader(http.StatusUnauthorized)
					}
					_, _ = io.WriteString(w, answer) // a client that is gone fails its own test
				})
			}
			server := httptest.NewServer(service)
			defer server.Close()
			c, err := New(server.URL+"/", "secret", server.Client())
			if err != nil {
				t.Fatal(err)
			}
			ref, _, err := c.LatestGame(t.Context(), "demo")
			var refused *Problem
			none := errors.As(err, &refused) && refused.Status == http.StatusNotFound
			if none != (tt.want == "") || !none && (err != nil || ref.String() != tt.want) {
				t.Errorf("%s, %v", ref, err)
			}
		})
	}
}
