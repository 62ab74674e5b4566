package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/kit/filelock"
	"github.com/millrace/millrace/internal/rollout"
	engineprocess "github.com/millrace/millrace/internal/scaling/provider/process"
)

// scales reports whether the service itself decides how many engines there are.
func (d *devStack) scales() bool {
	return len(d.opts.engines) == 0 && d.demo.MaxEngines > 0
}

// engineGrace is how long a simulated engine that the service started may take to end.
const engineGrace = 10 * time.Second

// engineState is the folder of the orders and logs of engines that the service starts, and lifeline the file on which
// they live: they outlive the worker, and end with this process, however that ends.
func (d *devStack) engineState() string { return filepath.Join(d.dir, "engines") }

func (d *devStack) lifeline() string { return filepath.Join(d.dir, "lifeline") }

func (d *devStack) serviceFile() string { return filepath.Join(d.dir, "service.yaml") }

// prepareScaling holds the lifeline, takes away what an earlier use of the folder has left, and writes the service's
// configuration.
func (d *devStack) prepareScaling(ctx context.Context) (err error) {
	if !d.scales() {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, 2*engineGrace)
	defer cancel()
	if d.releaseLifeline, err = filelock.Lock(waiting, d.lifeline()); err != nil {
		return fmt.Errorf("is another millrace dev using %s? %w", d.dir, err)
	}
	if err := engineprocess.StopAll(ctx, d.engineState()); err != nil {
		return err
	}
	return d.writeScaling()
}

// devWindow is how often a fleet that is simulated at its own speed is looked at.
const devWindow = 10 * time.Second

// writeScaling writes the configuration with which server and worker scale the fleet: by what shortens the demo's
// steps, in the demo's own time.
func (d *devStack) writeScaling() error {
	window := max(time.Duration(float64(devWindow)/d.demo.Speed), 200*time.Millisecond)
	section := map[string]any{
		"provider": "process", "policy": "starvation", "min": d.demo.Engines, "max": d.demo.MaxEngines,
		"window": rollout.Duration(window), "cold_start": rollout.Duration(max(d.coldStart(), time.Second)),
		"process": engineprocess.Config{Command: "{millrace} " + strings.Join(d.engineArgs("{port}"), " "),
			Env: []string{fmt.Sprintf("MILLRACE_DEV=%d", os.Getpid())}, MaxInFlight: d.demo.MaxInFlight(),
			Grace: rollout.Duration(engineGrace), StateDir: d.engineState(), Lifeline: d.lifeline()},
	}
	text, err := json.MarshalIndent(map[string]any{"scaling": section}, "", "  ") // which is YAML, too
	if err != nil {
		return err
	}
	return os.WriteFile(d.serviceFile(), text, 0o600)
}

// stopScaled ends what engines the service has started. When now is closed it stops being patient.
func (d *devStack) stopScaled(ctx context.Context, now <-chan struct{}) {
	if d.releaseLifeline == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*engineGrace)
	defer cancel()
	go func() {
		select {
		case <-now:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := engineprocess.StopAll(ctx, d.engineState()); err != nil && ctx.Err() == nil {
		d.env.Say("engines: %v", err)
	}
	d.releaseLifeline() // what has not ended does so now, by itself
}
