package environments

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// rules are the service's, for URLs in specs.
type rules struct{ address error }

func (r rules) DialNamed(string) (func(string, string, syscall.RawConn) error, error) {
	return func(string, string, syscall.RawConn) error { return r.address }, nil
}
func (rules) NamedKey(string) string { return "key" }
func (rules) TLS(string) *tls.Config { return nil }

// TestWebhookIsReachedByTheRules: what a worker builds asks a verifier's webhook with the key that is meant for it, and
// only where the service's rules allow.
func TestWebhookIsReachedByTheRules(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"right": %t}`, r.Header.Get("Authorization") == "Bearer key")
	}))
	defer server.Close()
	rows := filepath.Join(t.TempDir(), "rows.jsonl")
	if err := os.WriteFile(rows, []byte(`{"prompt": "1+1="}`), 0o600); err != nil {
		t.Fatal(err)
	}
	spec := runspec.Environment{Kind: "prompts", Options: json.RawMessage(fmt.Sprintf(
		`{"dataset": %q, "verifier": {"kind": "webhook", "url": %q}}`, rows, server.URL))}
	for denied, code := range map[error]rollout.Code{nil: "", errors.New("no"): rollout.CodeEngineAddress} {
		env, err := Builder(rules{denied}, nil)(spec)
		if err != nil {
			t.Fatal(err)
		}
		scenario, err := env.Scenario(1)
		if err != nil {
			t.Fatal(err)
		}
		game, err := env.Start(scenario, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := game.Act(map[string]string{"solver": "2"}); err != nil {
			t.Fatal(err)
		}
		if _, err = game.Act(nil); rollout.CodeOf(err) != code {
			t.Errorf("where the address is refused with %v: %v", denied, err)
		}
		if result, err := game.Result(); code == "" && (err != nil || result.Rewards["solver"] != 1) {
			t.Errorf("%+v, %v", result, err)
		}
	}
}
