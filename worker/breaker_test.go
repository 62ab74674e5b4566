package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// A run whose every request ends by its own deadline stops no other run: that one trains on, and no engine is closed to
// it at any time.
func TestDeadlinesOfOneRunStopNoOther(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	d.inProcess()
	noisy := d.spec("noisy", servedModel, 1000)
	noisy.Timeouts.Completion = rollout.Duration(time.Millisecond)
	noisy.Group = runspec.GroupSpec{Samples: 6, MinSamples: 6}
	noisy.Buffer.GroupsPerStep = 4
	d.start(noisy)
	d.until("its requests to time out", func() error { return d.failing(noisy.Name, "timeout", 1) })
	d.train(6)
	d.completed(6)
	if err := d.failing(noisy.Name, "timeout", 10); err != nil {
		t.Errorf("the other run went on alone: %v", err)
	}
	for _, run := range []rollout.RunName{"", d.run} {
		for _, change := range d.breakers(run) {
			t.Errorf("dispatch of run %q stopped or went on: %+v", run, change)
		}
	}
}

// An engine that answers canaries and refuses games costs no game, and is seen: requests that another engine accepts
// are held against it.
func TestRefusingEngineCostsNoGame(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	d.write("engines", d.refusing(d.engine(4))+" id=refuses\n"+d.engine(4)+" id=serves\n")
	d.inProcess()
	d.until("both engines", func() error {
		engines, err := d.conns.Registry.List(d.ctx)
		ready := 0
		for _, e := range engines {
			if e.State == enginestate.EngineReady {
				ready++
			}
		}
		if err == nil && ready < 2 {
			err = errNotYet
		}
		return err
	})
	d.train(4)
	d.until("the engine and the run's waits to say so", func() error {
		var engine enginestate.Engine
		var waits struct {
			Waits []struct{ What, Detail string }
		}
		err := errors.Join(d.get("/v1/engines/refuses", &engine), d.get("/v1/runs/rolling/waits", &waits))
		if err == nil && (len(engine.Closures) != 1 || engine.State != enginestate.EngineReady) {
			err = errNotYet
		}
		if err != nil {
			return err
		}
		said := engine.Closures[0].Text(time.Now())
		if !strings.Contains(said, "not dispatched to for run rolling by 1 of 1 workers") ||
			!strings.Contains(said, "refused") {
			t.Errorf("the engine is shown as %q", said)
		}
		if text := fmt.Sprint(waits); !strings.Contains(text, "{engine engine refuses is not dispatched to for run rolling") {
			return fmt.Errorf("the run waits for %s", text)
		}
		return nil
	})
	d.completed(4)
	if departures, err := d.conns.Buffer.Departures(d.ctx, d.run); err != nil {
		t.Error(err)
	} else {
		for _, left := range departures {
			if left.Code == "bad_request" {
				t.Errorf("%d groups were dropped: %s", left.Groups, left.Code)
			}
		}
	}
	if len(d.breakers(d.run)) == 0 {
		t.Error("the run's events do not tell that an engine was closed to it")
	}
}

// refusing stands before an engine and refuses what asks for more than one token.
func (d *deployment) refusing(engine string) string {
	target, err := url.Parse(engine)
	if err != nil {
		d.t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the caller went away
		}
		var asked struct {
			MaxTokens int `json:"max_tokens"`
		}
		if json.Unmarshal(body, &asked) == nil && asked.MaxTokens > 1 {
			http.Error(w, `{"error":{"message":"no","type":"BadRequestError","code":400}}`, http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	d.t.Cleanup(s.Close)
	return s.URL
}

// failing is nil when so many attempts of a run have failed with a code.
func (d *deployment) failing(run rollout.RunName, code rollout.Code, n int64) error {
	attempts, err := d.conns.Buffer.AttemptCounts(d.ctx, run)
	if err != nil {
		return err
	}
	for _, f := range attempts.ByCode {
		if f.Code == code && f.Attempts >= n {
			return nil
		}
	}
	return errNotYet
}

// get asks the API server.
func (d *deployment) get(path string, into any) error {
	resp, err := http.Get("http://" + d.cfg.Listen + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// breakers is what a run's events, or the fleet's, tell of dispatch that stopped and went on.
func (d *deployment) breakers(run rollout.RunName) []telemetry.BreakerChanged {
	d.t.Helper()
	records, err := d.conns.Events.Recent(d.ctx, run, "", 10_000)
	if err != nil {
		d.t.Fatal(err)
	}
	var changes []telemetry.BreakerChanged
	for _, r := range records {
		e, err := r.Event()
		if err != nil {
			d.t.Fatal(err)
		}
		if change, ok := e.Body.(telemetry.BreakerChanged); ok {
			changes = append(changes, change)
		}
	}
	return changes
}
