package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/kit/table"
	engineprocess "github.com/millrace/millrace/internal/scaling/provider/process"
)

// orphanOptions are the flags of `millrace engine orphans`.
type orphanOptions struct {
	service  serviceFlags
	stateDir string
	stop     bool
	format   string
}

func newOrphanEnginesCommand(env environment) *cobra.Command {
	var o orphanOptions
	cmd := &cobra.Command{
		Use:  "orphans [DEPLOYMENT...]",
		RunE: func(cmd *cobra.Command, args []string) error { return env.orphanEngines(cmd.Context(), o, args) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.stop, "stop", false, "stop them: they are told to end, and killed after their grace")
	f.StringVar(&o.stateDir, "state-dir", "", "scaling.process.state_dir of the workers (default: what the configuration "+
		"says, and else the user's own)")
	f.StringVarP(&o.service.file, "config", "c", "", "service configuration (YAML; default $MILLRACE_CONFIG)")
	f.StringVarP(&o.format, "output", "o", "table", "table or json")
	return cmd
}

// restarting is for how long a worker that has ended may be restarting.
const restarting = time.Minute

func (e environment) orphanEngines(ctx context.Context, o orphanOptions, named []string) error {
	if o.format != "table" && o.format != "json" {
		return usage("-o %s: use table or json", o.format)
	}
	dir, err := o.folder(e)
	if err != nil {
		return err
	}
	all, err := engineprocess.Deployments(ctx, dir)
	if err != nil {
		return err
	}
	orphans, err := chooseOrphans(all, named)
	if err != nil {
		return err
	}
	if o.format == "json" {
		if err := json.NewEncoder(e.Stdout).Encode(map[string]any{"deployments": orphans}); err != nil {
			return err
		}
	} else if err := e.writeOrphans(dir, all, orphans); err != nil {
		return err
	}
	if !o.stop {
		return nil
	}
	return e.stopOrphans(ctx, orphans, len(named) > 0)
}

// folder is where the engines' state is.
func (o orphanOptions) folder(env environment) (string, error) {
	if o.stateDir != "" {
		return filepath.Abs(o.stateDir)
	}
	if cmp.Or(o.service.file, os.Getenv("MILLRACE_CONFIG")) != "" {
		cfg, err := o.service.service(env)
		if err != nil {
			return "", err
		}
		if s := cfg.Scaling; s != nil && s.Process != nil && s.Process.StateDir != "" {
			return s.Process.StateDir, nil
		}
	}
	return engineprocess.DefaultStateDir(os.Getenv), nil
}

// chooseOrphans is the deployments without a worker; with names, those that are named.
func chooseOrphans(all []engineprocess.Deployment, named []string) ([]engineprocess.Deployment, error) {
	orphans := []engineprocess.Deployment{}
	for _, d := range all {
		if !d.HasWorker && (len(named) == 0 || slices.Contains(named, d.Name)) {
			orphans = append(orphans, d)
		}
	}
	for _, name := range named {
		i := slices.IndexFunc(all, func(d engineprocess.Deployment) bool { return d.Name == name })
		switch {
		case i < 0:
			return nil, fmt.Errorf("no engines of a deployment %s are on this host", name)
		case all[i].HasWorker:
			return nil, fmt.Errorf("deployment %s has a worker on this host, which would get its engines again; give them back "+
				"with millrace engine scaling policy=fixed engines=0 min=0", name)
		}
	}
	return orphans, nil
}

func (e environment) writeOrphans(dir string, all, orphans []engineprocess.Deployment) error {
	if len(orphans) == 0 {
		e.Say("no engine in %s is without a worker of its deployment (%d deployments have one)", dir, len(all))
		return nil
	}
	t := table.New(table.Left("DEPLOYMENT"), table.Left("ITS WORKER ENDED"), table.Left("ENGINE"), table.Left("STATE"),
		table.Right("PID"), table.Left("GPUS"), table.Left("URL"), table.Left("SINCE"))
	for _, d := range orphans {
		ended := "-"
		if !d.WorkerSeen.IsZero() {
			ended = "after " + d.WorkerSeen.Format(time.RFC3339)
		}
		for _, engine := range d.Engines {
			t.Row(d.Name, ended, string(engine.ID), string(engine.State), dash(engine.PID), cmp.Or(engine.GPUs, "-"),
				cmp.Or(engine.URL, "-"), engine.Since.UTC().Format(time.RFC3339))
		}
	}
	return t.Write(e.Stdout, 0)
}

// dash is a number, or a dash where there is none.
func dash(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func (e environment) stopOrphans(ctx context.Context, orphans []engineprocess.Deployment, named bool) error {
	var faults []error
	for _, d := range orphans {
		if age := time.Since(d.WorkerSeen); !named && age < restarting {
			e.Say("engines of %s are left: a worker looked after them %s ago, and may be restarting; name it to stop them",
				d.Name, age.Round(time.Second))
			continue
		}
		if err := d.Stop(ctx); err != nil {
			faults = append(faults, fmt.Errorf("deployment %s: %w", d.Name, err))
			continue
		}
		e.Say("%d engines of %s are stopped", len(d.Engines), d.Name)
	}
	return errors.Join(faults...)
}

// newKeepEngineCommand is how the provider of processes runs its keepers; its KeeperArgs names it.
func newKeepEngineCommand() *cobra.Command {
	return &cobra.Command{
		Use:  "keep FOLDER ATTEMPT",
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error { return engineprocess.Keep(args[0], args[1]) },
	}
}

// warnOfOrphans names engines of this host that nobody looks after: they use GPUs, and cost money.
func warnOfOrphans(cfg engineprocess.Config, owner string, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	dir := cmp.Or(cfg.StateDir, engineprocess.DefaultStateDir(os.Getenv))
	all, err := engineprocess.Deployments(ctx, dir)
	if err != nil {
		return // the provider's own calls say so
	}
	for _, d := range all {
		if !d.HasWorker && d.Name != owner {
			log.Warn("engines of another deployment are on this host, and no worker looks after them: see millrace engine "+
				"orphans; if they are this deployment's, under an earlier address or prefix of its Redis, set "+
				"scaling.deployment to that name", "deployment", d.Name, "engines", len(d.Engines), "state_dir", dir)
		}
	}
}
