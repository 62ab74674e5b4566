package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/observe/axiom/resources"
	"github.com/millrace/millrace/internal/process/connections"
)

func newAxiomApplyCommand(env environment) *cobra.Command {
	var flags serviceFlags
	var dataset string
	var notifiers []string
	var dryRun bool
	cmd := &cobra.Command{
		Use:  "apply",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := flags.service(env)
			if err != nil {
				return err
			}
			dataset = cmp.Or(dataset, cfg.Axiom.Dataset)
			switch {
			case cfg.Axiom.Token == "":
				return usage("no token: set AXIOM_TOKEN")
			case dataset == "":
				return usage("no dataset: add --dataset NAME, or set AXIOM_DATASET or axiom.dataset")
			}
			axiom, err := resources.Connect(cfg.Axiom.Token.Reveal(), cfg.Axiom.OrgID, cfg.Axiom.URL,
				&http.Client{Timeout: 30 * time.Second, Transport: env.HTTP.Transport})
			if err != nil {
				return usage("%v", err)
			}
			return applyToAxiom(cmd.Context(), env, axiom, dataset, notifiers, dryRun)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&flags.file, "config", "c", "", "service configuration (YAML); see config/examples/service.yaml")
	f.StringVar(&dataset, "dataset", "", "the dataset (default AXIOM_DATASET, then axiom.dataset)")
	f.StringSliceVar(&notifiers, "notifier", nil, "notifier, by name or id, that monitors notify; repeatable")
	f.BoolVar(&dryRun, "dry-run", false, "show what would change, and change nothing")
	return cmd
}

// applyToAxiom shows what differs, and unless it is a dry run, makes it as wanted.
func applyToAxiom(ctx context.Context, env environment, axiom resources.Caller, dataset string, notifiers []string,
	dryRun bool) error {
	set := resources.Wanted(dataset)
	plan, err := resources.Plan(ctx, axiom, set, resources.Options{Notifiers: notifiers}, time.Now())
	if err != nil {
		return unavailableIfDown(err)
	}
	kept := 0
	for _, c := range plan {
		sign := map[resources.Action]string{resources.Create: "+", resources.Update: "~"}[c.Action]
		if sign == "" {
			kept++
			continue
		}
		fmt.Fprintf(env.Stdout, "%s %s %s\n", sign, c.Kind, c.Name)
		for _, line := range c.Diff {
			fmt.Fprintf(env.Stdout, "    %s\n", line)
		}
	}
	changes := len(plan) - kept
	if changes == 0 {
		fmt.Fprintf(env.Stdout, "nothing to do: the dataset %s, %d map fields, %d dashboards and %d monitors are as wanted\n",
			dataset, len(set.MapFields), len(set.Dashboards), len(set.Monitors))
		return nil
	}
	if dryRun {
		fmt.Fprintf(env.Stdout, "%d to change, %d as wanted; without --dry-run they are changed\n", changes, kept)
		return nil
	}
	applied := 0
	err = resources.Apply(ctx, plan, func(c resources.Change, err error) {
		if err == nil {
			applied++
		}
	})
	fmt.Fprintf(env.Stdout, "%d changed, %d as wanted\n", applied, kept)
	if err == nil && len(notifiers) == 0 {
		env.Say("monitors that nobody attached a notifier to tell nobody: add --notifier NAME, or attach one in Axiom")
	}
	return unavailableIfDown(err)
}

// unavailableIfDown gives an error of the network the exit code for what may be tried again.
func unavailableIfDown(err error) error {
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, resources.ErrUnavailable) {
		return fmt.Errorf("the Axiom server %w: %w", connections.ErrNoAnswer, err)
	}
	return err
}
