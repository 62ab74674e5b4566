package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/face/cli"
	"github.com/millrace/millrace/internal/kit/progressline"
	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/simulate/setup"
	"github.com/millrace/millrace/internal/simulate/sim"
)

// maxSeeds bounds how often one command simulates a run.
const maxSeeds = 1000

// detailedSteps is how many steps, the newest, keep their groups in their records: as many as a diagnosis looks at.
const detailedSteps = 500

// simulateOptions are the flags of `millrace simulate`.
type simulateOptions struct {
	file   string
	set    []string
	seed   int64
	seeds  int
	steps  int
	format string
	record string
}

func newSimulateCommand(env environment, play simulator) *cobra.Command {
	var o simulateOptions
	cmd := &cobra.Command{
		Use:  "simulate -f SETUP.yaml",
		Args: noRun,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("seed") {
				o.set = append(o.set, fmt.Sprintf("seed=%d", o.seed))
			}
			return simulateRun(cmd.Context(), env, o, play)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "file", "f", "", `the setup, or a run spec; "-" is standard input`)
	f.StringArrayVar(&o.set, "set", nil, "KEY=VALUE takes the place of what the file says; repeatable")
	f.Int64Var(&o.seed, "seed", 0, "seed of the simulation (default: the file's)")
	f.IntVar(&o.seeds, "seeds", 1, "simulate with so many seeds, one after another, and say how far the results differ")
	f.IntVar(&o.steps, "steps", 0, "simulate only so many steps of the run (default: all)")
	f.StringVar(&o.record, "record", "", "write the simulated run to this file, as millrace run record does of a live "+
		"one; gzipped if its name ends in .gz")
	f.StringVarP(&o.format, "output", "o", "table", "table or json")
	cmd.Flag("seed").DefValue = "0" // so that help does not print it: it is the file's
	for name, complete := range map[string]cobra.CompletionFunc{
		"set": completeSetupKeys,
		"file": func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
		},
		"output": cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp),
	} {
		if err := cmd.RegisterFlagCompletionFunc(name, complete); err != nil {
			panic(err) // there is no such flag
		}
	}
	return cmd
}

// noRun takes no arguments: somebody who names a run means another command.
func noRun(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%q: a setup is named with -f; what a recorded run would do with other engines is: "+
			"millrace plan %s", args[0], args[0])
	}
	return nil
}

// completeSetupKeys offers the keys of a setup that have a value.
func completeSetupKeys(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var offered []string
	for _, key := range settingKeys() {
		offered = append(offered, key.Path+"=\t"+key.Doc)
	}
	return offered, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// settingKeys is the keys of a setup that have a value of their own: neither sections, nor keys of a list's items.
func settingKeys() []settings.Key {
	keys := sim.Table().Keys
	var own []settings.Key
	for i, key := range keys {
		section := i+1 < len(keys) && strings.HasPrefix(keys[i+1].Path, key.Path+".")
		if !section && !strings.HasPrefix(key.Path, "fleet.events.") && !strings.HasPrefix(key.Path, "policies.") {
			own = append(own, key)
		}
	}
	return own
}

func (o simulateOptions) validate() error {
	switch {
	case o.file == "":
		return usage("name a file with -f, such as config/setups/seed-004-a100.yaml")
	case o.format != "table" && o.format != "json":
		return usage("-o %s: use table or json", o.format)
	case o.seeds < 1 || o.seeds > maxSeeds:
		return usage("--seeds %d: want 1 to %d", o.seeds, maxSeeds)
	case o.steps < 0:
		return usage("--steps %d: want at least 1", o.steps)
	}
	return nil
}

// simulator plays a setup.
type simulator func(context.Context, sim.Setup, sim.Options) (sim.Result, error)

// simulateRun reads a setup, plays it with each seed and writes what came out.
func simulateRun(ctx context.Context, env environment, o simulateOptions, play simulator) error {
	if err := o.validate(); err != nil {
		return err
	}
	setup, assumed, err := env.readSetupFile(o.file, o.set)
	if err != nil {
		return err
	}
	if o.steps > setup.Steps {
		return usage("--steps %d: the run has %d steps; a longer one: --set steps=%d", o.steps, setup.Steps, o.steps)
	}
	s := simulation{File: o.file, Setup: setup, Assumed: assumed, given: o.set}
	progress := newSimulationProgress(env, setup, o.steps, o.seeds)
	defer progress.End()
	for i := range o.seeds {
		one := setup
		one.Seed += int64(i)
		progress.seed = i
		result, err := play(ctx, one, sim.Options{Progress: progress.step, MaxSteps: o.steps, Detail: detailedSteps})
		if err != nil {
			return fmt.Errorf("simulate %s: %w", o.file, err)
		}
		s.add(one.Seed, result)
		if i == 0 && o.record != "" {
			if err := cli.WriteRecord(recordOf(one, result), o.record); err != nil {
				return fmt.Errorf("record: %w", err)
			}
		}
	}
	progress.End()
	if o.format == "json" {
		return s.writeJSON(env.Stdout)
	}
	return s.writeText(env.Stdout)
}

// readSetupFile reads a setup, or a run spec, from a file, or from standard input for "-".
func (e environment) readSetupFile(path string, assignments []string) (sim.Setup, []sim.Assumption, error) {
	data, err := e.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return sim.Setup{}, nil, fmt.Errorf("setup: %w; examples are in config/setups", err)
	case errors.Is(err, syscall.EISDIR):
		return sim.Setup{}, nil, fmt.Errorf("setup: %s is a directory; name a file in it", path)
	case err != nil:
		return sim.Setup{}, nil, fmt.Errorf("setup: %w", err)
	}
	return setup.Read(path, data, assignments)
}

// simulationProgress shows how far simulations with one seed after another are.
type simulationProgress struct {
	*progressline.Line
	steps, seed, seeds int
}

func newSimulationProgress(env environment, s sim.Setup, steps, seeds int) *simulationProgress {
	steps = cmp.Or(steps, s.Steps)
	return &simulationProgress{Line: progressline.Start(env.Stderr, "simulating"), steps: steps, seeds: seeds}
}

// step hears of a completed step.
func (p *simulationProgress) step(step rollout.Step, virtual time.Duration) {
	note := virtual.Round(time.Second).String() + " of virtual time"
	if p.seeds > 1 {
		note = fmt.Sprintf("seed %d of %d", p.seed+1, p.seeds)
	}
	p.At(int64(p.seed*p.steps)+int64(step)+1, int64(p.seeds*p.steps), "steps", note)
}
