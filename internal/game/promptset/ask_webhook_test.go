package promptset

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/game/specurl"
	"github.com/millrace/millrace/internal/rollout"
)

// hook is a webhook with one answer. A status of 0 breaks the connection, -1 never answers, and -2 is an address that
// the configuration refuses.
type hook struct {
	status int
	body   string
	asked  string // the last body that was sent
	key    string
}

func (h *hook) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	h.asked, h.key = string(body), req.Header.Get("Authorization")
	switch h.status {
	case 0:
		return nil, errors.New("connect: connection refused by 10.0.0.9")
	case -2:
		return nil, rollout.Fail(rollout.Permanent, rollout.CodeEngineAddress, specurl.ErrDenied)
	case -1:
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	w := httptest.NewRecorder()
	w.Header().Set("Location", "http://10.0.0.9/admin")
	w.WriteHeader(h.status)
	w.WriteString(h.body)
	return w.Result(), nil
}

// TestWebhook: what a webhook answers, and what becomes of the game. One that has no verdict is asked again by whoever
// goes on with the game; the learner is not.
func TestWebhook(t *testing.T) {
	t.Parallel()
	const waits, lost, hangs = rollout.CodeEnvironmentUnavailable, rollout.CodeResult, rollout.CodeEnvironmentHung
	for _, tt := range []struct {
		name   string
		hook   hook
		reward float64
		count  string // that the outcome has
		code   rollout.Code
		says   string
	}{
		{"a number", hook{200, `{"reward": -2.5, "why": "slow"}`, "", ""}, -2.5, "", "", ""},
		{"nought", hook{200, `{"reward": 0}`, "", ""}, 0, "", "", ""},
		{"right", hook{200, `{"right": true}`, "", ""}, 1, countRight, "", ""},
		{"wrong", hook{200, `{"right": false}`, "", ""}, 0, countWrong, "", ""},
		{"both", hook{200, `{"right": true, "reward": 1}`, "", ""}, 0, "", lost, "neither"},
		{"neither", hook{200, `{"score": 1}`, "", ""}, 0, "", lost, "neither"},
		{"no number", hook{200, `{"reward": 1e999}`, "", ""}, 0, "", lost, "neither"},
		{"no JSON", hook{200, `<html>secret`, "", ""}, 0, "", lost, "neither"},
		{"too much", hook{200, strings.Repeat(" ", 1<<20+1), "", ""}, 0, "", lost, "more than 1048576 bytes"},
		{"somewhere else", hook{302, `secret`, "", ""}, 0, "", lost, "status 302"},
		{"refused", hook{422, `secret`, "", ""}, 0, "", lost, "status 422"},
		{"key", hook{401, `secret`, "", ""}, 0, "", lost, "engine_urls.keys_file"},
		{"busy", hook{429, ``, "", ""}, 0, "", waits, "status 429"},
		{"away", hook{503, `secret`, "", ""}, 0, "", waits, "status 503"},
		{"broken by it", hook{500, `secret`, "", ""}, 0, "", lost, "status 500"},
		{"down", hook{0, ``, "", ""}, 0, "", waits, "no connection"},
		{"not allowed", hook{-2, ``, "", ""}, 0, "", rollout.CodeEngineAddress, "engine_urls"},
		{"silent", hook{-1, ``, "", ""}, 0, "", hangs, "no answer in 1m0s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				env := written(t, `, "verifier": {"kind": "webhook", "url": "https://v.example.com/check"}`,
					`{"prompt": "1+1=", "answer": 2, "tests": [1.0, 9007199254740993]}`)
				env.hook = &specurl.Server{URL: env.cfg.Verifier.URL, HTTP: &http.Client{Transport: &tt.hook,
					CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
					Key: func() string { return "sk" }}
				game := opened(t, env, 0)
				if _, err := game.Act(map[string]string{agent: "2"}); err != nil || game.Done() || tt.hook.asked != "" {
					t.Fatalf("done: %v, %v, asked %s", game.Done(), err, tt.hook.asked)
				}
				saved, err := game.Checkpoint()
				if err != nil {
					t.Fatal(err)
				}
				if game, err = env.Resume(saved); err != nil {
					t.Fatal(err)
				}
				if prompts, err := game.Prompts(); len(prompts) > 0 || err != nil || game.Phase() != "judge" {
					t.Fatalf("%+v, %v, in phase %s", prompts, err, game.Phase())
				}
				began := time.Now()
				outcome, err := game.Act(nil)
				if took := time.Since(began); took != map[bool]time.Duration{true: webhookPatience}[tt.hook.status == -1] {
					t.Errorf("took %s", took)
				}
				const want = `{"from":"line 1","prompt":"1+1=","answers":["2"],"row":{"answer":2,"prompt":"1+1=",` +
					`"tests":[1.0,9007199254740993]},"text":"2"}`
				if tt.hook.asked != want || tt.hook.key != "Bearer sk" {
					t.Errorf("asked %s with %s", tt.hook.asked, tt.hook.key)
				}
				atOnce := tt.code == lost && tt.hook.status != 500 // else other attempts ask again
				if rollout.CodeOf(err) != tt.code || game.Done() != (tt.code == "") ||
					rollout.KindOf(err) == rollout.GameFault != atOnce {
					t.Fatalf("done: %v, %v", game.Done(), err)
				}
				if tt.code != "" {
					if text := err.Error(); !strings.Contains(text, tt.says) || strings.Contains(text, "secret") ||
						strings.Contains(text, "10.0.0.9") || strings.Contains(text, "sk") {
						t.Error(text)
					}
					return
				}
				result, err := game.Result()
				if err != nil || result.Rewards[agent] != tt.reward || tt.count != "" && outcome.Counts[tt.count] != 1 {
					t.Errorf("%+v, %+v, %v", result, outcome, err)
				}
			})
		})
	}
}

// TestWebhookWithoutAReference: a row needs no answer, for the webhook has the whole row. Outside a worker nobody is
// asked.
func TestWebhookWithoutAReference(t *testing.T) {
	t.Parallel()
	env := written(t, `, "verifier": {"kind": "webhook", "url": "http://127.0.0.1:1"}`, `{"prompt": "a", "tests": "b"}`)
	game := opened(t, env, 0)
	if _, err := game.Act(map[string]string{agent: "2"}); err != nil {
		t.Fatal(err)
	}
	if _, err := game.Act(nil); err == nil || !strings.Contains(err.Error(), "workers alone") {
		t.Error(err)
	}
	saved, err := game.Checkpoint()
	var told struct{ Row struct{ Tests string } }
	if err != nil || json.Unmarshal(saved, &told) != nil || told.Row.Tests != "b" {
		t.Errorf("%s, %v", saved, err)
	}
}
