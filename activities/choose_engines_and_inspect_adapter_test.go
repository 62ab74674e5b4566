package activities

import (
	"context"
	"slices"
	"testing"

	"go.temporal.io/sdk/testsuite"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/store/buffer"
)

// fleetWith is engines, and the adapters that are wanted of them.
type fleetWith struct {
	Fleet
	engines []enginestate.Engine
	wanted  []fleet.Adapter
}

func (f fleetWith) List(context.Context) ([]enginestate.Engine, error) { return f.engines, nil }
func (f fleetWith) Wanted(context.Context) ([]fleet.Adapter, error)    { return f.wanted, nil }

// TestAnAdapterIsLoadedByEnginesOfItsBaseModel, and by no other, whatever it has the shape for; those that lack another
// adapter of the run are not waited for.
func TestAnAdapterIsLoadedByEnginesOfItsBaseModel(t *testing.T) {
	t.Parallel()
	ready := func(id rollout.EngineID, adapters []string, models ...string) enginestate.Engine {
		return enginestate.Engine{ID: id, State: enginestate.EngineReady, Models: models, Adapters: adapters}
	}
	serving := []string{"r-v1"}
	a := &Activities{Fleet: fleetWith{
		engines: []enginestate.Engine{
			ready("same", serving, "7B"), ready("two-names", serving, "seven", "7B"), ready("behind", nil, "7B"),
			ready("other", serving, "7B-Instruct"), ready("none", serving),
			{ID: "lost", State: enginestate.EngineLost, Models: []string{"7B"}, Adapters: serving},
		},
		wanted: []fleet.Adapter{{Run: "r", Name: "r-v1"}, {Run: "another", Name: "another-v1"}},
	}}
	got, err := a.ChooseEngines(t.Context(), ChoiceInput{Run: "r", Base: "7B"})
	if err != nil || !slices.Equal(got.Ready, []rollout.EngineID{"same", "two-names"}) ||
		!slices.Equal(got.Behind, []rollout.EngineID{"behind"}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// bufferAt is a buffer whose account has a version.
type bufferAt struct {
	Buffer
	version rollout.PolicyVersion
}

func (b bufferAt) AccountSince(context.Context, rollout.RunName, rollout.Step) (buffer.Account, error) {
	return buffer.Account{Version: b.version}, nil
}

// TestARunThatIsBehindItsAccountJudgesNoAdapter, also where it knows of no version at all.
func TestARunThatIsBehindItsAccountJudgesNoAdapter(t *testing.T) {
	t.Parallel()
	for newest := range rollout.PolicyVersion(3) {
		var suite testsuite.WorkflowTestSuite
		env := suite.NewTestActivityEnvironment()
		a := &Activities{Buffer: bufferAt{version: 3}}
		env.RegisterActivity(a.InspectAdapter)
		answer, err := env.ExecuteActivity(a.InspectAdapter, InspectInput{Newest: &newest})
		if err != nil {
			t.Fatal(err)
		}
		var found Inspected
		if err := answer.Get(&found); err != nil || found.Ahead != 3 {
			t.Errorf("a run that knows of version %d: %+v, %v", newest, found, err)
		}
	}
}
