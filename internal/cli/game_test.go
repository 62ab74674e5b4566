package cli

import (
	"net/http/httptest"
	"testing"
)

// TestLatestGame takes the newest group that has begun, and passes over those of which nothing is kept. Groups that
// were given up are among the dropped ones: of the 99 here, the newest is number 98, however many failed.
func TestLatestGame(t *testing.T) {
	t.Parallel()
	counts := `{"buffer":{"queued":5,"in_flight":2,"ready":1,"claimed":1,"completed":4,"dropped":91},"failures":{"timeout":91}}`
	for _, tt := range []struct {
		name string
		kept string
		want string
		code int
	}{
		{"the newest", "GET /v1/runs/demo/games/98/0", "demo/98/0", ExitOK},
		{"the newest has not finished a phase", "GET /v1/runs/demo/games/97/0", "demo/97/0", ExitOK},
		{"there is no hundredth", "GET /v1/runs/demo/games/99/0", "", ExitNotFound},
		{"queued groups have not begun", "GET /v1/runs/demo/games/102/0", "", ExitNotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(&service{t: t, answers: map[string]reply{"GET /v1/runs/demo": {200, counts}, tt.kept: {200, `{"phases":[]}`}}})
			defer server.Close()
			c, err := NewClient(server.URL, "", server.Client())
			if err != nil {
				t.Fatal(err)
			}
			ref, _, err := c.LatestGame(t.Context(), "demo")
			if ExitCode(err) != tt.code || err == nil && ref.String() != tt.want {
				t.Errorf("%s, %v", ref, err)
			}
		})
	}
}
