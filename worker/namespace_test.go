package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/process/connections"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/spec"
)

// Two deployments share a namespace and the name of a run, as service.yaml says they can: each has its own fleet
// and its own run, and neither can reach the other's.
func TestDeploymentsInOneNamespaceCannotTouchEachOther(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	d.inProcess()
	other := d.neighbour("other")
	d.while("the neighbour's worker", func(ctx context.Context) error {
		return runWorker(ctx, other.cfg, slog.New(slog.DiscardHandler))
	})

	ours, theirs := d.conns.Control, other.conns.Control
	given := d.spec("rolling", servedModel, 3)
	given.Group = runspec.GroupSpec{Samples: 2, MinSamples: 2}
	if _, _, err := d.startAgain(given); err != nil {
		t.Fatal(err)
	}
	deepen := func() error {
		_, err := theirs.Change(d.ctx, given.Name, spec.Change{Set: settings.Patch{"buffer.depth": 5}})
		return err
	}
	if err := d.again(deepen); !rollout.Refused(err, rollout.NoSuchRun) {
		t.Errorf("a run of another deployment was changed: %v", err)
	}
	d.until("the neighbour's run of the same name", func() error {
		_, created, err := theirs.Start(d.ctx, given)
		if err == nil && !created {
			err = errors.New("it was there already")
		}
		return err
	})
	if err := d.again(deepen); err != nil {
		t.Error(err)
	}
	for _, each := range []*connections.Set{d.conns, other.conns} {
		d.until("ready engines", func() error { return enginesReady(d.ctx, each) })
	}
	var status runstatus.RunStatus
	err := d.again(func() (err error) { status, err = ours.Change(d.ctx, given.Name, spec.Pause(true)); return err })
	if err != nil || status.Spec.Buffer.Depth != given.Buffer.Depth {
		t.Errorf("our run: depth %d, %v", status.Spec.Buffer.Depth, err)
	}
	if err := d.again(func() error { _, err := theirs.Stop(d.ctx, given.Name, "enough"); return err }); err != nil {
		t.Error(err)
	}
	err = d.again(func() (err error) { status, err = ours.Stop(d.ctx, given.Name, "too"); return err })
	if err != nil || status.Reason != "too" {
		t.Errorf("our run was stopped for %q: %v", status.Reason, err)
	}
}

// neighbour is a second deployment in the same namespace, with a Redis and an engine of its own.
func (d *deployment) neighbour(prefix string) *deployment {
	d.t.Helper()
	d.write("neighbour-engines", d.engine(4)+"\n")
	text := fmt.Sprintf("listen: %s\nredis: {url: redis://%s/0, prefix: rolling}\ntemporal: {address: %s, "+
		"task_queue_prefix: %s}\nengines_from: file:%s\n",
		freeAddress(d.t), miniredis.RunT(d.t).Addr(), d.cfg.Temporal.Address, prefix,
		filepath.Join(d.dir, "neighbour-engines"))
	other := &deployment{}
	var err error
	if other.cfg, err = config.ReadService("service.yaml", []byte(text), func(string) string { return "" }); err != nil {
		d.t.Fatal(err)
	}
	if other.conns, err = connections.Open(d.ctx, "test", other.cfg.Config.Config,
		slog.New(slog.DiscardHandler)); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(other.conns.Close)
	return other
}

// enginesReady reports why a deployment has no engine that is ready.
func enginesReady(ctx context.Context, b *connections.Set) error {
	engines, err := b.Registry.List(ctx)
	if err != nil {
		return err
	}
	for _, e := range engines {
		if e.State == enginestate.EngineReady {
			return nil
		}
	}
	return fmt.Errorf("none of %d is ready", len(engines))
}
