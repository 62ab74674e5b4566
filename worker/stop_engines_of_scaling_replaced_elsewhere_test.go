package worker

import (
	"context"
	"testing"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/scaling/provider/memory"
)

// dismissed is the engines that were taken out of a fleet.
type dismissed []rollout.EngineID

func (d *dismissed) Dismiss(_ context.Context, id rollout.EngineID) error {
	*d = append(*d, id)
	return nil
}

// A worker whose host was taken for dead comes back, and its engines, which another host's have replaced, run on.
func TestEnginesThatAnotherConfigurationHasReplacedAreStopped(t *testing.T) {
	t.Parallel()
	cloud := memory.NewCloud()
	mine, others := cloud.Provider("mine"), cloud.Provider("others")
	for _, id := range []rollout.EngineID{"scaled-1", "scaled-2"} {
		if err := mine.Start(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if err := others.Start(t.Context(), "scaled-3"); err != nil {
		t.Fatal(err)
	}
	var gone dismissed
	for _, want := range []int{2, 0} {
		if n, err := stopLeftovers(t.Context(), mine, &gone); n != want || err != nil {
			t.Errorf("%d were stopped, want %d; %v", n, want, err)
		}
	}
	if left, err := others.List(t.Context()); len(left) != 1 || err != nil || len(gone) != 2 {
		t.Errorf("others have %v, %v; dismissed %v", left, err, gone)
	}
	if n, err := stopLeftovers(t.Context(), nil, &gone); n != 0 || err != nil {
		t.Errorf("without a provider %d were stopped, %v", n, err)
	}
}
