package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/millrace/millrace/internal/face/cli"
	"github.com/millrace/millrace/internal/kit/supervise"

	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// follow starts the run and its trainer, shows the progress until the run is over, and ends with the table of steps
// and the diagnosis.
func (d *devStack) follow(ctx context.Context, spec runspec.Spec) error {
	api, err := d.env.Client(d.server)
	if err != nil {
		return err
	}
	if !d.opts.noTrainer {
		adapters, err := d.adapters()
		if err != nil {
			return err
		}
		spec.Adapters.PathPrefix = adapters // its own trainer's
	}
	if err := api.StartRun(ctx, spec); err != nil {
		return fmt.Errorf("start run: %w", err)
	}
	d.env.Say("run %s: %d steps of %d groups x %d games, buffer depth %d",
		spec.Name, spec.Steps, spec.Buffer.GroupsPerStep, spec.Group.Samples, spec.Buffer.Depth)
	if !d.opts.noTrainer {
		if err := d.startTrainer(spec); err != nil {
			return err
		}
	}
	status, err := api.Watch(ctx, spec.Name, d.env.Stderr)
	if err != nil {
		return err
	}
	if !d.opts.noTrainer && status.State == runstatus.RunCompleted {
		if err := d.group.Wait(ctx, "trainer"); err != nil && !errors.Is(err, context.Canceled) {
			d.env.Say("the trainer ended badly: %v; see %s", err, d.group.LogFile("trainer"))
		}
	}
	if err := d.conclude(ctx, api, spec); err != nil {
		return err
	}
	if status.State == runstatus.RunCompleted {
		return nil
	}
	ended := fmt.Errorf("run %s is %s: %s", spec.Name, status.State, status.Reason)
	if d.opts.exit {
		return ended
	}
	d.env.Say("%v", ended) // the services stay up
	return nil
}

// conclude writes the table of steps and the diagnosis.
func (d *devStack) conclude(ctx context.Context, api cli.Client, spec runspec.Spec) error {
	fmt.Fprintln(d.env.Stdout)
	if err := api.Steps(ctx, spec.Name, d.env.Stdout); err != nil {
		return err
	}
	if d.opts.learn {
		return d.learned(ctx, api, spec)
	}
	fmt.Fprintln(d.env.Stdout)
	return api.Diagnose(ctx, spec.Name, d.env.Stdout)
}

// adapters makes the folder that the trainer writes to, and engines read.
func (d *devStack) adapters() (string, error) {
	dir, err := filepath.Abs(filepath.Join(d.dir, "adapters"))
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return "", fmt.Errorf("make a folder for adapters: %w", err)
	}
	return dir, nil
}

func (d *devStack) startTrainer(spec runspec.Spec) error {
	journal := d.opts.journal
	if journal == "" {
		journal = filepath.Join(d.dir, "trained.jsonl")
	}
	err := d.group.Start(supervise.Process{
		Name: "trainer", Path: d.self, Env: d.childEnvironment(), Once: true,
		Args: []string{"trainer", "demo", string(spec.Name), "--server", d.server, "--journal", journal,
			"--speed", fmt.Sprint(d.demo.Speed), "--load", d.demo.Load.String(),
			"--ref-logprobs", d.demo.RefLogprobs.String(), "--train", d.demo.Train.String(),
			"--publish", d.demo.Publish.String(), fmt.Sprintf("--learn=%t", d.opts.learn)},
	})
	if err != nil {
		return err
	}
	d.env.Say("trainer running, process %d", d.group.PID("trainer"))
	return nil
}
