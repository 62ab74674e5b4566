package buffer_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/internal/store/redistest"
)

// Changes of a run on one node of a Cluster are heard by who listens at another one. When that node dies, the listener
// is told, so that claims look for themselves again, and the run goes on where its account is.
func TestChangesAreHeardOverTheBusOfACluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.Masters(t, 3)
	f := &fixture{Store: buffer.New(nodes.Client, buffer.Options{}), t: t, ctx: t.Context(), rdb: nodes.Client}
	_, listensAt, _ := nodes.Owner(t, "millrace:changed")
	of := spec(1, 9)
	for i := range 99 {
		of.Name = rollout.RunName(fmt.Sprintf("run-%d", i))
		if _, at, _ := nodes.Owner(t, fmt.Sprintf("millrace:{%s}:run", of.Name)); at != listensAt {
			break
		}
	}
	f.ok(f.Open(f.ctx, of))
	began, heard, ended := make(chan bool, 9), make(chan rollout.RunName, 99), make(chan error, 1)
	go func() {
		ended <- f.Follow(f.ctx, func() { began <- true }, func(run rollout.RunName) { heard <- run })
	}()
	wait(t, "began", began)
	// Nodes that have just met drop what they cannot send to each other yet: a change is told once, as a hint.
	version := rollout.PolicyVersion(0)
	for told := false; !told; {
		version++
		f.ok(f.SetVersion(f.ctx, of.Name, version, 0))
		select {
		case run := <-heard:
			expect(t, "heard over the bus", run, of.Name)
			told = true
		case <-time.After(time.Second):
			if version == 60 {
				t.Fatal("none of 60 changes was heard")
			}
		}
	}

	nodes.Kill(t, listensAt)
	select {
	case err := <-ended:
		if err == nil {
			t.Error("it ended without a reason")
		}
	case <-time.After(time.Minute):
		t.Fatal("the node where it listens is dead, and it goes on listening")
	}
	if err := f.SetVersion(f.ctx, of.Name, version+1, 0); err != nil {
		t.Errorf("the run's own node lives: %v", err)
	}
}
