package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/face/access"
	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/kit/panics"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/store/buffer"
)

// scripted is a store whose answer to a claim is set by the test; what is not set is not asked for.
type scripted struct {
	api.Store
	answer func(step rollout.Step, looks int) (*buffer.RawBatch, error)
	looks  int
}

func (s *scripted) ClaimRaw(_ context.Context, _ rollout.RunName, step rollout.Step, _ rollout.TrainerGeneration,
	_ buffer.Share) (*buffer.RawBatch, error) {
	s.looks++
	return s.answer(step, s.looks)
}

func (s *scripted) Status(context.Context, rollout.RunName) (runstatus.RunStatus, error) {
	return runstatus.RunStatus{Spec: spec(), State: runstatus.RunRunning}, nil
}

func (s *scripted) Counts(context.Context, rollout.RunName) (steprecord.BufferCounts, error) {
	return steprecord.BufferCounts{Ready: 1}, nil
}

func (s *scripted) TrainerActivity(context.Context, rollout.RunName) (runstatus.TrainerActivity, error) {
	return runstatus.TrainerActivity{}, nil
}

func (s *scripted) AttemptCounts(context.Context, rollout.RunName) (runstatus.AttemptCounts, error) {
	return runstatus.AttemptCounts{}, nil
}

func (s *scripted) Account(context.Context, rollout.RunName) (buffer.Account, error) {
	return buffer.Account{ClaimedTo: 3}, nil
}

func (s *scripted) Attach(context.Context, rollout.RunName, *rollout.Step) (rollout.TrainerGeneration,
	rollout.Step, error) {
	return 2, 0, nil
}

func (s *scripted) Unwitnessed(rollout.RunName) (runstatus.Mark, bool) {
	return runstatus.Mark{}, false
}

func (s *scripted) Knows(rollout.RunName) bool { return true }

func notReady(rollout.Step, int) (*buffer.RawBatch, error) {
	return nil, rollout.Refuse(rollout.NotReady, "1 of 2 groups are ready")
}

// bubbled is the API without a network, for bubbles in which time is made.
func (s *scripted) ID(_ context.Context, name rollout.RunName) (rollout.RunName, error) {
	return name, nil
}

func bubbled(t *testing.T, store api.Store, events api.Events) *api.Server {
	t.Helper()
	return bubbledWith(t, api.Deps{Control: &control{}, Store: store, Events: events})
}

func bubbledWith(t *testing.T, deps api.Deps) *api.Server {
	t.Helper()
	return bubbledAs(t, api.Config{Listen: "127.0.0.1:0"}, deps)
}

func bubbledAs(t *testing.T, cfg api.Config, deps api.Deps) *api.Server {
	t.Helper()
	deps.Fleet, deps.Workers = smallFleet{}, oneWorker{}
	deps.ReadSpec = func([]byte) (s runspec.Spec, err error) { return s, nil }
	s, err := newServer(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ask(ctx context.Context, s *api.Server, method, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://localhost"+path, http.NoBody).WithContext(ctx)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

func TestLongPollTakesItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &scripted{answer: notReady}
		s := bubbled(t, store, nilEvents{})
		began := time.Now()
		w := ask(t.Context(), s, "POST", "/v1/runs/demo/steps/0/claim?generation=1&wait=30s")
		if took := time.Since(began); w.Code != 204 || took != 30*time.Second {
			t.Errorf("%d after %v, want 204 after 30s", w.Code, took)
		}
		if got := w.Header().Get("X-Millrace-Reason"); got != "1 of 2 groups are ready" {
			t.Errorf("reason %q", got)
		}
		if store.looks < 200 || store.looks > 320 {
			t.Errorf("%d looks at the store in 30s", store.looks)
		}
		began = time.Now()
		w = ask(t.Context(), s, "POST", "/v1/runs/demo/steps/0/claim?generation=1&wait=24h")
		if took := time.Since(began); w.Code != 204 || took != longestWait {
			t.Errorf("%d after %v, want 204 after %v", w.Code, took, longestWait)
		}
	})
}

func TestLongPollSeesABatchSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ready := began.Add(7 * time.Second)
		store := &scripted{answer: func(step rollout.Step, looks int) (*buffer.RawBatch, error) {
			if time.Now().Before(ready) {
				return notReady(step, looks)
			}
			return &buffer.RawBatch{Run: run, Step: step}, nil
		}}
		w := ask(t.Context(), bubbled(t, store, nilEvents{}), "POST", "/v1/runs/demo/steps/0/claim?generation=1&wait=30s")
		if late := time.Since(ready); w.Code != 200 || late > 130*time.Millisecond {
			t.Errorf("%d, %v after the batch was ready", w.Code, late)
		}
		if got := w.Body.String(); got != `{"run":"demo","step":0,"trainer_version":0,"groups":[]}`+"\n" {
			t.Errorf("got %s", got)
		}
	})
}

// TestLongPollIsWoken: what happens in this process is seen at once, not at the next look.
func TestLongPollIsWoken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fenced := false
		store := &scripted{answer: func(step rollout.Step, looks int) (*buffer.RawBatch, error) {
			if fenced {
				return nil, rollout.Refuse(rollout.Fenced, "generation 2 took over")
			}
			return notReady(step, looks)
		}}
		s := bubbled(t, store, nilEvents{})
		var took time.Duration
		done := make(chan int)
		began := time.Now()
		go func() {
			w := ask(t.Context(), s, "POST", "/v1/runs/demo/steps/0/claim?generation=1&wait=30s")
			took = time.Since(began)
			done <- w.Code
		}()
		time.Sleep(10 * time.Second) // The bubble's time: pauses are at their longest by now.
		synctest.Wait()
		fenced = true
		if w := ask(t.Context(), s, "POST", "/v1/runs/demo/trainer"); w.Code != 200 {
			t.Errorf("attach: %d", w.Code)
		}
		if code := <-done; code != 409 || took != 10*time.Second {
			t.Errorf("%d after %v, want 409 after 10s", code, took)
		}
	})
}

func TestLongPollEndsWithItsClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &scripted{answer: notReady}
		s := bubbled(t, store, nilEvents{})
		ctx, leave := context.WithTimeout(t.Context(), 3*time.Second)
		defer leave()
		began := time.Now()
		ask(ctx, s, "POST", "/v1/runs/demo/steps/0/claim?generation=1&wait=30s")
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("ended after %v", took)
		}
		looks := store.looks
		time.Sleep(time.Minute)
		if store.looks != looks {
			t.Error("the store is asked for a client that has gone")
		}
	})
}

func TestStoppedServerHoldsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := bubbled(t, &scripted{answer: notReady}, nilEvents{})
		s.Stop()
		s.Stop()
		began := time.Now()
		if w := ask(t.Context(), s, "POST", "/v1/runs/demo/steps/0/claim?generation=1&wait=30s"); w.Code != 204 ||
			time.Since(began) != 0 {
			t.Errorf("%d after %v", w.Code, time.Since(began))
		}
		if w := ask(t.Context(), s, "GET", "/readyz"); w.Code != 503 {
			t.Errorf("ready: %d", w.Code)
		}
	})
}

// TestStoppedServerEndsPublications: they wait for engines for minutes, and a stop does not wait for them.
func TestStoppedServerEndsPublications(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := bubbledWith(t, api.Deps{Control: loading{}, Store: &scripted{answer: notReady}, Events: nilEvents{}})
		time.AfterFunc(time.Second, s.Stop)
		began := time.Now()
		r := httptest.NewRequest("PUT", "http://localhost/v1/runs/demo/policies/1", strings.NewReader(`{"path": "/adapters/1"}`))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		if took := time.Since(began); w.Code != 503 || took != time.Second ||
			!strings.Contains(w.Body.String(), "publish it again") {
			t.Errorf("%d after %v: %s", w.Code, took, w.Body)
		}
	})
}

// loading has engines that never have loaded.
type loading struct{ *control }

func (loading) Publish(
	ctx context.Context, _ rollout.RunName, _ rollout.PolicyVersion, _ string, _ rollout.TrainerGeneration,
) (runstatus.Policy, error) {
	<-ctx.Done()
	return runstatus.Policy{}, ctx.Err()
}

// nilEvents has no events and never will.
type nilEvents struct{}

func (nilEvents) Recent(context.Context, rollout.RunName, string, int) ([]api.Event, error) {
	return nil, nil
}

func (nilEvents) Gone(context.Context, rollout.RunName) ([]api.GoneEvents, error) { return nil, nil }

func (nilEvents) Follow(ctx context.Context, _ rollout.RunName, _ string, _ func(api.Event) error) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestSilentStreamShowsThatItLives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := bubbled(t, &scripted{answer: notReady}, nilEvents{})
		ctx, leave := context.WithTimeout(t.Context(), 50*time.Second)
		defer leave()
		w := ask(ctx, s, "GET", "/v1/runs/demo/events", "Accept", "text/event-stream")
		if got := strings.Count(w.Body.String(), ": alive\n\n"); got != 3 {
			t.Errorf("%d signs of life in 50s, want 3: %q", got, w.Body.String())
		}
	})
}

// TestAStreamEndsWithItsReadersToken: at its next sign of life, whatever has become of the token.
func TestAStreamEndsWithItsReadersToken(t *testing.T) {
	t.Parallel()
	reader := access.Grant{Name: "reader", Role: access.Reader, Runs: []string{"demo"}, Hash: access.HashOf("token")}
	elsewhere := reader
	elsewhere.Runs = []string{"other"}
	for name, tt := range map[string]struct {
		expires time.Duration
		then    []access.Grant
		want    time.Duration
	}{
		"stays":               {then: []access.Grant{reader}, want: 50 * time.Second},
		"is taken away":       {then: nil, want: 30 * time.Second},
		"is for another run":  {then: []access.Grant{elsewhere}, want: 30 * time.Second},
		"expires in a moment": {expires: 31 * time.Second, want: 45 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				grants := access.NewGrants()
				first := reader
				if tt.expires > 0 {
					first.Expires = time.Now().Add(tt.expires)
					tt.then = []access.Grant{first}
				}
				grants.Replace([]access.Grant{first})
				s := bubbledAs(t, api.Config{Listen: "127.0.0.1:0", Access: grants}, api.Deps{Control: &control{},
					Store: &scripted{answer: notReady}, Events: nilEvents{}})
				time.AfterFunc(20*time.Second, func() { grants.Replace(tt.then) })
				ctx, leave := context.WithTimeout(t.Context(), 50*time.Second)
				defer leave()
				began := time.Now()
				ask(ctx, s, "GET", "/v1/runs/demo/events", "Accept", "text/event-stream", "Authorization", "Bearer token")
				if took := time.Since(began); took != tt.want {
					t.Errorf("the stream lasted %v, want %v", took, tt.want)
				}
			})
		})
	}
}

func TestPanicIsAProblem(t *testing.T) {
	t.Parallel()
	s := bubbled(t, &scripted{answer: func(rollout.Step, int) (*buffer.RawBatch, error) { panic("broken") }}, nilEvents{})
	w := ask(t.Context(), s, "POST", "/v1/runs/demo/steps/0/claim?generation=1")
	if w.Code != 500 || !strings.Contains(w.Body.String(), "urn:millrace:problem:internal") ||
		strings.Contains(w.Body.String(), "broken") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// A diagnosis is made in a goroutine of its own, where nobody else would recover.
func TestADiagnosisThatPanicsIsAProblem(t *testing.T) {
	t.Parallel()
	counted := 0
	s := bubbledWith(t, api.Deps{Control: &control{}, Store: &scripted{}, Events: nilEvents{},
		Panics: panics.Watch{Count: func(string) { counted++ }},
		Diagnose: func(context.Context, rollout.RunName, api.DiagnosisQuery) (any, error) {
			panic("a record breaks it")
		}})
	for _, query := range []string{"", "?step=3"} {
		w := ask(t.Context(), s, "GET", "/v1/runs/demo/diagnosis"+query)
		if w.Code != 500 || !strings.Contains(w.Body.String(), "urn:millrace:problem:internal") ||
			strings.Contains(w.Body.String(), "a record breaks it") {
			t.Errorf("%q: %d %s", query, w.Code, w.Body)
		}
	}
	status := runstatus.RunStatus{Spec: runspec.Spec{Name: "demo"}}
	if value, err := s.LatestDiagnosis(t.Context(), status, time.Minute); value != nil || err == nil {
		t.Errorf("the page is shown %v, %v", value, err)
	}
	if counted < 2 {
		t.Errorf("%d counted", counted)
	}
}
