package activities

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// failingFleet is a fleet of one engine, which loads nothing.
type failingFleet struct {
	Fleet
	engines []enginestate.Engine
}

func (f failingFleet) List(context.Context) ([]enginestate.Engine, error) { return f.engines, nil }

func (failingFleet) Load(context.Context, rollout.EngineID, fleet.Adapter) (float64, error) {
	return 0, rollout.Fail(rollout.Retryable, rollout.CodeEngineGone, errors.New("connection refused"))
}

// A publication does not wait for an engine that was given back meanwhile, and takes nothing that it says for the
// adapter's fault.
func TestLoadsOfEnginesThatLeaveAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		engines []enginestate.Engine
		again   bool // it is tried again
	}{
		{"ready", []enginestate.Engine{{ID: "e", State: enginestate.EngineReady}}, true},
		{"lost, and expected back", []enginestate.Engine{{ID: "e", State: enginestate.EngineLost}}, true},
		{"draining", []enginestate.Engine{{ID: "e", State: enginestate.EngineDraining}}, false},
		{"gone", nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := &Activities{Fleet: failingFleet{engines: tt.engines}, Tell: telemetry.Discard, Now: time.Now}
			env := new(testsuite.WorkflowTestSuite).NewTestActivityEnvironment()
			env.RegisterActivity(a)
			_, err := env.ExecuteActivity(a.LoadAdapter, LoadInput{Engine: "e", Adapter: fleet.Adapter{Name: "r-v1"}})
			var app *temporal.ApplicationError
			if !errors.As(err, &app) || app.NonRetryable() == tt.again || Final(err) {
				t.Errorf("got %v, tried again %v, final %v", err, app != nil && !app.NonRetryable(), Final(err))
			}
		})
	}
}
