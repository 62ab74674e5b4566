package runkeeper

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/workflows"
)

// wishes is a fleet that keeps adapters of runs, of which some have a workflow.
type wishes struct {
	closedWorkflow
	owners []rollout.RunName
	driven rollout.RunName
}

func (w *wishes) AdapterOwners(context.Context) ([]rollout.RunName, error) {
	return slices.Clone(w.owners), nil
}

func (w *wishes) UnwantAdapters(_ context.Context, run rollout.RunName) error {
	w.owners = slices.DeleteFunc(w.owners, func(owner rollout.RunName) bool { return owner == run })
	return nil
}

func (w *wishes) Drive(_ context.Context, run rollout.RunName) (workflows.Drive, error) {
	return workflows.Drive{Known: true, Running: run == w.driven}, nil
}

// A Redis that came back older wants adapters again of a run that has ended and of one that was deleted. They are let
// go when that has been so for a while; not those of a run that goes on, nor of one that Redis has forgotten.
func TestAdaptersOfRunsThatAreOverAreLetGo(t *testing.T) {
	t.Parallel()
	f := newEnded(t)
	over := f.workflow.status
	over.Spec.Name, over.State = "over", runstatus.RunCompleted
	f.ok(f.Open(f.ctx, over.Spec))
	f.ok(f.SaveStatus(f.ctx, over, 0))
	w := &wishes{owners: []rollout.RunName{run, "deleted", "forgotten", "over"}, driven: "forgotten"}
	k := &Keeper{Control: w, Buffer: f.Store, Pace: DefaultPace(), Log: slog.New(slog.DiscardHandler)}
	f.ok(k.unwantOver(f.ctx))
	if len(w.owners) != 4 {
		t.Errorf("kept at once are those of %v, want all", w.owners)
	}
	for run := range k.owners {
		k.owners[run] = time.Now().Add(-k.Pace.Missing)
	}
	f.ok(k.unwantOver(f.ctx))
	if want := []rollout.RunName{run, "forgotten"}; !slices.Equal(w.owners, want) {
		t.Errorf("kept are those of %v, want %v", w.owners, want)
	}
	if len(k.owners) != 0 {
		t.Errorf("remembered are %v", k.owners)
	}
}
