package api_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// forgetful is a control whose runs do not say how far their accounts have come until they are reached.
type forgetful struct {
	api.Control
	reached atomic.Bool
}

func (c *forgetful) Mark(context.Context, rollout.RunName) (runstatus.Mark, error) {
	if !c.reached.Load() {
		return runstatus.Mark{}, errors.New("temporal is unavailable")
	}
	return runstatus.Mark{Era: 1, Serial: 99}, nil
}

// A server that came up while Temporal was unavailable asks a run's workflow again, and then doubts an account that is
// behind what the workflow knows: an old master of Redis, promoted again, looks as if nothing had happened.
func TestWorkflowThatDidNotAnswerIsAskedAgain(t *testing.T) {
	t.Parallel()
	of := &forgetful{}
	f := serve(t, func(_ *api.Config, deps *api.Deps) { of.Control, deps.Control = deps.Control, of })
	f.start()
	f.ready(0, 1)
	claim := func() (int, string) {
		resp, err := http.Post(f.url+"/v1/runs/demo/steps/0/claim", "", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode, resp.Header.Get("X-Millrace-Reason")
	}
	if code, why := claim(); code != http.StatusOK {
		t.Fatalf("while nobody can be asked, a claim is answered %d (%s)", code, why)
	}
	of.reached.Store(true)
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		code, why := claim()
		if code == http.StatusNoContent && strings.Contains(why, "compares") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the workflow knows more than the account, and a claim is answered %d (%s)", code, why)
		}
	}
}

// attentive is a control whose runs keep what they are told of their accounts.
type attentive struct {
	api.Control
	mu   sync.Mutex
	mark runstatus.Mark
}

func (c *attentive) BufferChanged(_ context.Context, _ rollout.RunName, mark runstatus.Mark) error {
	time.Sleep(20 * time.Millisecond) // so that who does not wait for it is noticed
	c.mu.Lock()
	defer c.mu.Unlock()
	if mark.Serial > c.mark.Serial {
		c.mark = mark
	}
	return nil
}

// What a trainer is told, the run's workflow knows before. A server that has seen nothing of a run asks it before the
// first call, and answers none where the workflow knows more than Redis.
func TestTheWorkflowKnowsWhatATrainerIsTold(t *testing.T) {
	t.Parallel()
	calls := []struct {
		method, path, body string
		answer, doubted    int
		knows              func(runstatus.Mark) bool
	}{
		{"POST", "/v1/runs/demo/trainer", "{}", 200, 503, func(m runstatus.Mark) bool { return m.Generation == 1 }},
		{"POST", "/v1/runs/demo/steps/0/claim?generation=1", "", 200, 204,
			func(m runstatus.Mark) bool { return m.Granted == 1 }},
		{"PUT", "/v1/runs/demo/steps/0", `{"generation":1,"wall_seconds":1}`, 201, 503,
			func(m runstatus.Mark) bool { return m.Completed == 1 }},
	}
	workflow := &attentive{}
	f := serve(t, func(_ *api.Config, deps *api.Deps) { workflow.Control, deps.Control = deps.Control, workflow })
	f.start()
	f.ready(0, 1)
	for _, call := range calls {
		f.want(f.do(call.method, call.path, call.body), call.answer)
		workflow.mu.Lock()
		if !call.knows(workflow.mark) {
			t.Errorf("%s %s is answered, and the workflow knows %+v", call.method, call.path, workflow.mark)
		}
		workflow.mu.Unlock()

		of := &forgetful{}
		of.reached.Store(true)
		other := serve(t, func(_ *api.Config, deps *api.Deps) { of.Control, deps.Control = deps.Control, of })
		other.start()
		other.want(other.do(call.method, call.path, call.body), call.doubted)
	}
}
