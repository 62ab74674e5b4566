package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/scaling/supply"
)

// scales is a worker in the process of the test whose configuration's section `scaling` is in a file, which it reads
// again when it changes.
func (d *deployment) scales(section string) (file string) {
	d.t.Helper()
	file = "scaling.yaml"
	read := func() (config.Service, error) {
		data, err := os.ReadFile(filepath.Join(d.dir, file))
		if err != nil {
			return config.Service{}, err
		}
		cfg, err := config.ReadService(file, data, func(string) string { return "" })
		if err != nil {
			return cfg, err
		}
		is := d.cfg
		is.Scaling = cfg.Scaling
		is.Source = d.cfg.Source
		return is, nil
	}
	d.write(file, section)
	d.cfg.Source = &config.Source{File: filepath.Join(d.dir, file), Read: read}
	cfg, err := read()
	if err != nil {
		d.t.Fatal(err)
	}
	d.while("a worker", func(ctx context.Context) error { return runWorker(ctx, cfg, slog.New(slog.DiscardHandler)) })
	return file
}

// scaling waits until something holds of what is told of scaling.
func (d *deployment) scaling(what string, holds func(supply.View) bool) {
	d.t.Helper()
	d.until(what, func() error {
		view, scaled, err := d.conns.Registry.Scaling(d.ctx)
		if err == nil && !(scaled && holds(view)) {
			err = fmt.Errorf("of scaling is told: %+v", view)
		}
		return err
	})
}

// endScaling ends scaling, and waits until that is told. A look that was under way may tell of the fleet once more
// right after the end, which is then told again by who ends it.
func (d *deployment) endScaling() {
	d.t.Helper()
	d.until("scaling to end", func() error {
		if err := d.conns.Control.EndScaling(d.ctx); err != nil {
			return err
		}
		return retry.Within(d.ctx, 2*time.Second, 5*time.Millisecond, func(ctx context.Context) error {
			view, _, err := d.conns.Registry.Scaling(ctx)
			if err == nil && view.EndedAt.IsZero() {
				err = errors.New("it has not ended")
			}
			return err
		})
	})
}

const advised = "scaling: {provider: advise, policy: fixed, engines: %d, min: 0, max: 9, window: 200ms}\n"

// TestScalingGoesOnAfterItHasEnded: a worker that scales the fleet, and was not heard of for so long that scaling has
// ended, has it go on, also where a Redis that came back older knows nothing of that.
func TestScalingGoesOnAfterItHasEnded(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	d.scales(fmt.Sprintf(advised, 3))
	d.scaling("the fleet to be scaled", func(v supply.View) bool { return v.Wanted == 3 })

	d.endScaling()
	d.scaling("scaling to go on", func(v supply.View) bool { return v.EndedAt.IsZero() && v.Wanted == 3 })

	var old supply.View
	d.scaling("a look", func(v supply.View) bool { old = v; return true })
	d.endScaling()
	old.At = old.At.Add(-2 * silentFor)
	if err := d.conns.Registry.SaveScaling(d.ctx, old); err != nil {
		t.Fatal(err)
	}
	d.scaling("scaling to go on again", func(v supply.View) bool { return v.At.After(old.At.Add(2 * silentFor)) })
}

// TestAWorkerTakesUpHowItScales: a changed section is decided by at once, and what an operator had set is dropped. How
// engines are got wants a restart.
func TestAWorkerTakesUpHowItScales(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	file := d.scales(fmt.Sprintf(advised, 3))
	d.scaling("the fleet to be scaled", func(v supply.View) bool { return v.Wanted == 3 })
	d.until("an operator's change", func() error {
		_, err := d.conns.Control.SetScaling(d.ctx, scaling.SettingsChange{Set: scaling.Overrides{"engines": 5}})
		return err
	})
	d.scaling("an operator's number", func(v supply.View) bool { return v.Wanted == 5 && len(v.Set) == 1 })

	d.write(file, fmt.Sprintf(advised, 4))
	d.scaling("the file's number", func(v supply.View) bool { return v.Wanted == 4 && len(v.Set) == 0 })

	d.write(file, "scaling: {provider: exec, policy: fixed, engines: 2, min: 0, max: 9, window: 300ms,\n"+
		"  exec: {start: start, stop: stop, list: list}}\n")
	d.scaling("the file's other number", func(v supply.View) bool { return v.Wanted == 2 })
	d.scaling("the same provider", func(v supply.View) bool { return v.Provider == "advise" })
}
