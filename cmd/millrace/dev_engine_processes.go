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
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	engineprocess "github.com/millrace/millrace/internal/scaling/provider/process"
)

// engineGrace is how long a simulated engine may take to end.
const engineGrace = 10 * time.Second

// engineState is the folder of the engines' orders and logs, and lifeline the file on which they live: they outlive the
// worker, and end with this process, however that ends.
func (d *devStack) engineState() string { return filepath.Join(d.dir, "engines") }

func (d *devStack) lifeline() string { return filepath.Join(d.dir, "lifeline") }

// prepareEngines holds the lifeline, and takes away what an earlier use of the folder has left.
func (d *devStack) prepareEngines(ctx context.Context) (err error) {
	waiting, cancel := context.WithTimeout(ctx, 2*engineGrace)
	defer cancel()
	if d.releaseLifeline, err = filelock.Lock(waiting, d.lifeline()); err != nil {
		return fmt.Errorf("is another millrace dev using %s? %w", d.dir, err)
	}
	if err := engineprocess.StopAll(ctx, d.engineState()); err != nil || !d.scales() {
		return err
	}
	return d.writeScaling()
}

// engineProcesses are the simulated engines, as processes of this host.
func (d *devStack) engineProcesses() engineprocess.Config {
	command := fmt.Sprintf("{millrace} engine simulate --port {port} --seed {port} --speed %g", d.demo.Speed)
	if d.demo.EngineMaxNumSeqs > 0 {
		command += fmt.Sprintf(" --max-num-seqs %d", d.demo.EngineMaxNumSeqs)
	}
	if d.demo.ColdStart > 0 {
		command += fmt.Sprintf(" --cold-start %s", d.demo.ColdStart)
	}
	return engineprocess.Config{Command: command, Env: []string{fmt.Sprintf("MILLRACE_DEV=%d", os.Getpid())},
		MaxInFlight: d.demo.MaxInFlight(), Grace: rollout.Duration(engineGrace), StateDir: d.engineState(),
		Lifeline: d.lifeline()}
}

// scales reports whether the service itself decides how many engines there are.
func (d *devStack) scales() bool {
	return len(d.opts.engines) == 0 && d.demo.MaxEngines > 0
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
		"process": d.engineProcesses(),
	}
	text, err := json.MarshalIndent(map[string]any{"scaling": section}, "", "  ") // which is YAML, too
	if err != nil {
		return err
	}
	return os.WriteFile(d.serviceFile(), text, 0o600)
}

func (d *devStack) serviceFile() string { return filepath.Join(d.dir, "service.yaml") }

// startEngineProcess starts one simulated engine and waits until it answers.
func (d *devStack) startEngineProcess(ctx context.Context, s seat) error {
	id := rollout.EngineID(s.name)
	if err := d.engines.Start(ctx, id); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute+d.coldStart())
	defer cancel()
	for d.env.healthy(ctx, s.url()+"/health") != nil {
		all, err := d.engines.List(ctx)
		if err != nil {
			return err
		}
		for _, e := range all {
			if e.ID == id && e.State == enginestate.EngineFailed {
				return fmt.Errorf("%s does not come up: it %s", s.name, e.Reason)
			}
		}
		if err := retry.Pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("%s does not come up: %w; it writes to %s", s.name, err, d.engines.LogFile(id))
		}
	}
	return nil
}

// coldStart is a simulated engine's in the demo's own time.
func (d *devStack) coldStart() time.Duration {
	return time.Duration(float64(d.demo.ColdStart) / d.demo.Speed)
}

func (d *devStack) startKeepingEngines(ctx context.Context) {
	ctx, end := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.keepEngines(ctx)
	}()
	d.endEngineKeeping = func() {
		end()
		<-ended
	}
}

// keepEngines starts those simulated engines again that end by themselves, at their old addresses.
func (d *devStack) keepEngines(ctx context.Context) {
	const first, most, healthy = 300 * time.Millisecond, 10 * time.Second, 10 * time.Second
	delays, began := map[rollout.EngineID]time.Duration{}, map[rollout.EngineID]time.Time{}
	for retry.Pause(ctx, 100*time.Millisecond) == nil {
		all, err := d.engines.List(ctx)
		if err != nil {
			continue // another look follows
		}
		for _, e := range all {
			if e.State != enginestate.EngineFailed {
				continue
			}
			delay := max(first, min(2*delays[e.ID], most))
			if time.Since(began[e.ID]) > healthy {
				delay = first
			}
			why, _, _ := strings.Cut(strings.TrimPrefix(e.Reason, "ended with "), " after ")
			d.env.Say("%s ended (%s); starting it again in %s", e.ID, why, delay)
			if retry.Pause(ctx, delay) != nil || d.engines.Stop(ctx, e.ID) != nil || d.engines.Start(ctx, e.ID) != nil {
				continue
			}
			delays[e.ID], began[e.ID] = delay, time.Now()
			d.env.Say("%s runs again, process %d", e.ID, d.engines.PID(e.ID))
		}
	}
}

// stopEngines ends what engines there are, whoever has started them. When now is closed it stops being patient.
func (d *devStack) stopEngines(ctx context.Context, now <-chan struct{}) {
	if d.releaseLifeline == nil {
		return
	}
	if d.endEngineKeeping != nil {
		d.endEngineKeeping()
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
