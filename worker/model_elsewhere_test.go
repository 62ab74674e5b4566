package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// TestEvaluationAgainstModelElsewhere: a version plays a model behind a chat API, through Temporal, Redis and worker
// processes. The API is overloaded now and then, and a worker is killed in the middle: each game is once in the result,
// and the key is in no history. What must not be reached is not.
func TestEvaluationAgainstModelElsewhere(t *testing.T) {
	t.Parallel()
	const key, games = "sk-of-the-test", 24
	d := newDeployment(t)
	var calls, foreign atomic.Int64
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Model    string
			Messages []struct{ Role, Content string }
		}
		if json.NewDecoder(r.Body).Decode(&asked) != nil || r.URL.Path != "/v1/chat/completions" ||
			r.Header.Get("Authorization") != "Bearer "+key || asked.Model != "gpt-x" || len(asked.Messages) != 1 ||
			!strings.Contains(asked.Messages[0].Content, "Tic-tac-toe") {
			foreign.Add(1)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if calls.Add(1)%5 == 0 {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		time.Sleep(50 * time.Millisecond) // so that the worker dies while it asks
		_, _ = w.Write([]byte(`{"choices":[{"message":{"content":" C3\n"},"finish_reason":"stop"}]}`))
	}))
	defer model.Close()
	keys := filepath.Join(d.dir, "keys")
	d.write("keys", model.URL+" "+key+"\n")
	text, err := os.ReadFile(filepath.Join(d.dir, "service.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	d.write("service.yaml", string(text)+fmt.Sprintf("engine_urls: {keys_file: %s}\n", keys))
	first := d.worker()

	spec := d.spec(d.run, servedModel, 2)
	spec.Environment.Options = json.RawMessage(`{"opponent": "policy:gpt"}`)
	spec.Group = runspec.GroupSpec{Samples: 2, MinSamples: 2}
	spec.Buffer.Depth, spec.Buffer.GroupsPerStep = 1, 2
	spec.Policies = []runspec.FixedPolicy{{Name: "gpt", URL: model.URL + "/v1", Model: "gpt-x"}}
	d.start(spec)
	d.until("the evaluation to be started", func() error {
		status, said := d.ask("POST", "/v1/runs/rolling/evaluations",
			fmt.Sprintf(`{"version": 0, "against": "policy:gpt", "games": %d}`, games), nil)
		if status >= 300 {
			return fmt.Errorf("%d %s", status, said)
		}
		return nil
	})
	d.until("games in play", func() error {
		if n := calls.Load(); n < games {
			return fmt.Errorf("%d calls", n)
		}
		return nil
	})
	first.kill()
	second := d.worker()
	var all api.EvaluationList
	d.until("the result", func() error {
		if status, said := d.ask("GET", "/v1/runs/rolling/evaluations", "", &all); status != http.StatusOK {
			return fmt.Errorf("%d %s", status, said)
		}
		if len(all.Evaluations) != 1 || all.Evaluations[0].State != runstatus.RunCompleted {
			return fmt.Errorf("%+v", all)
		}
		return nil
	})
	if r := all.Evaluations[0]; r.Games != games || r.Score == nil || r.Against != "policy:gpt" || foreign.Load() > 0 {
		t.Errorf("%+v; %d calls that are none of the games'; the worker said\n%s", r, foreign.Load(), second.out)
	}
	for _, run := range []rollout.RunName{d.run, all.Evaluations[0].Run} {
		if h := d.history(d.conns.Control.Deployment.RunID(run), "").String(); !strings.Contains(h, string(run)) ||
			strings.Contains(h, key) {
			t.Errorf("the history of %s has the key, or nothing", run)
		}
	}

	var inside runstatus.RunStatus
	if status, said := d.ask("POST", "/v1/runs/rolling/evaluations", `{"version": 0, "against": "policy:inside",
		"url": "http://169.254.169.254/v1", "model": "m", "games": 1}`, &inside); status >= 300 {
		t.Fatal(status, said)
	}
	d.until("the address to be refused", func() error {
		if _, said := d.ask("GET", "/v1/runs/"+string(inside.Spec.Name), "", nil); !strings.Contains(said,
			`"code":"engine_address"`) {
			return errors.New(said)
		}
		return nil
	})
}
