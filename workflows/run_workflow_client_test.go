package workflows

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/spec"
)

// An update that Temporal gave back untaken is sent again until the call's time is up; any other failure is told at
// once.
func TestUpdatesThatWereNotTakenAreSentAgain(t *testing.T) {
	t.Parallel()
	notTaken := serviceerror.NewWorkflowNotReady("unexpected workflow task failure")
	gone := errors.New("connection refused")
	for _, tt := range []struct {
		name     string
		failures []error // then updates succeed
		calls    int
		refused  bool
	}{
		{"taken at once", nil, 1, false},
		{"not taken twice", []error{notTaken, notTaken}, 3, false},
		{"no connection", []error{gone}, 1, true},
		{"not taken, then no connection", []error{notTaken, gone}, 2, true},
		{"never taken", forever(notTaken), int(callTimeout / notTakenPause), true}, // or one more, at the last moment
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				temporal := &failingUpdates{failures: tt.failures}
				c := &Client{Temporal: temporal}
				_, err := c.Change(t.Context(), "one", spec.Pause(true))
				if refused := rollout.Refused(err, rollout.Unavailable); refused != tt.refused || !refused && err != nil {
					t.Errorf("answer: %v, want a refusal: %v", err, tt.refused)
				}
				if n := temporal.calls; n != tt.calls && (tt.calls < 100 || n != tt.calls+1) {
					t.Errorf("sent %d times, want %d", n, tt.calls)
				}
			})
		})
	}
}

func forever(err error) []error {
	errs := make([]error, 1000)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// failingUpdates is a Temporal whose first updates fail.
type failingUpdates struct {
	client.Client
	failures []error
	calls    int
}

func (f *failingUpdates) UpdateWorkflow(
	context.Context, client.UpdateWorkflowOptions,
) (client.WorkflowUpdateHandle, error) {
	f.calls++
	if f.calls <= len(f.failures) {
		return nil, f.failures[f.calls-1]
	}
	return done{}, nil
}

type done struct{ client.WorkflowUpdateHandle }

func (done) Get(context.Context, any) error { return nil }
