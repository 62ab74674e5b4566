package api_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
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
