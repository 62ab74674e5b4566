package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/filelock"
	"github.com/millrace/millrace/internal/rollout"
)

// devWindow is how often a fleet that is simulated at its own speed is looked at.
const devWindow = 10 * time.Second

// elastic reports whether the service gets the engines by itself: as many as the run is worth, up to demo.max_engines.
func (d *devStack) elastic() bool { return len(d.opts.engines) == 0 && d.demo.MaxEngines > 0 }

// writeScaling writes the worker's configuration, by which it gets simulated engines: processes of this host, which
// end with this one.
func (d *devStack) writeScaling(ctx context.Context) (file string, err error) {
	lifeline := filepath.Join(d.dir, "lifeline")
	if d.endEngines, err = filelock.Lock(ctx, lifeline); err != nil {
		return "", err
	}
	window := max(time.Duration(float64(devWindow)/d.demo.Speed), 200*time.Millisecond)
	cold := time.Duration(float64(d.demo.ColdStart.Std()) / d.demo.Speed)
	command := []string{"{millrace}", "engine", "simulate", "--port", "{port}", "--speed", fmt.Sprint(d.demo.Speed)}
	if d.demo.EngineMaxNumSeqs > 0 {
		command = append(command, "--max-num-seqs", fmt.Sprint(d.demo.EngineMaxNumSeqs))
	}
	if cold > 0 {
		command = append(command, "--cold-start", d.demo.ColdStart.Std().String())
	}
	text := fmt.Sprintf(`scaling:
  provider: process
  policy: starvation
  min: %d
  max: %d
  window: %v
  cold_start: %v
  process:
    command: %q
    state_dir: %q
    lifeline: %q
    grace: 2s
    max_in_flight: %d
`, d.demo.Engines, d.demo.MaxEngines, rollout.Duration(window), rollout.Duration(max(cold, time.Second)),
		strings.Join(command, " "), filepath.Join(d.dir, "engines"), lifeline, d.demo.MaxInFlight())
	file = filepath.Join(d.dir, "worker.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("write the worker's configuration: %w", err)
	}
	d.env.say("the fleet scales from %d to %d simulated engines (A100, Qwen2.5-7B, LoRA; speed x%g); "+
		"millrace fleet show --server %s says why", d.demo.Engines, d.demo.MaxEngines, d.demo.Speed, d.server)
	return file, nil
}
