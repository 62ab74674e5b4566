package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/millrace/millrace/internal/apiclient"
)

// TestAllPagesOfRuns: every page asks what the first one did.
func TestAllPagesOfRuns(t *testing.T) {
	t.Parallel()
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RequestURI())
		next := map[string]string{"": "a", "a": "b"}[r.URL.Query().Get("after")]
		fmt.Fprintf(w, `{"runs":[{"id":"run-%d"}],"next":%q}`, len(asked), next)
	}))
	defer server.Close()
	c, err := apiclient.New(server.URL, "", server.Client())
	if err != nil {
		t.Fatal(err)
	}
	runs, _, err := allRuns(t.Context(), c, true)
	want := "[/v1/runs?active=true /v1/runs?active=true&after=a /v1/runs?active=true&after=b]"
	if err != nil || len(runs) != 3 || fmt.Sprint(asked) != want {
		t.Errorf("%d runs, asked %v, %v; want %s", len(runs), asked, err, want)
	}
}
