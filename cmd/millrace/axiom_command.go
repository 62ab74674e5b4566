package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/cli"
	"github.com/millrace/millrace/internal/connections"
	"github.com/millrace/millrace/internal/table"
	"github.com/millrace/millrace/internal/telemetry/axiom/axiomtest"
	"github.com/millrace/millrace/internal/telemetry/axiom/resources"
)

func newAxiomCommand(env environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "axiom",
		Short: "Millrace's dashboards and monitors in Axiom, and a fake Axiom to try them with",
	}
	cmd.AddCommand(newAxiomApplyCommand(env), newAxiomFakeCommand(env))
	return cmd
}

func newAxiomApplyCommand(env environment) *cobra.Command {
	var flags serviceFlags
	var dataset string
	var notifiers []string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Create or update Millrace's dataset, dashboards and monitors in Axiom",
		Long: `Create or update what Millrace wants in Axiom: the dataset, its map fields and all other fields, four
dashboards (run overview, starvation, engines, learning) and five monitors. What is as wanted is left
alone, so that a second apply changes nothing. Notifiers that people attached to a monitor stay, and a
monitor that was switched off stays off.

AXIOM_TOKEN is a token for this command, not the servers': datasets, dashboards and monitors (each
create, read, update), ingest (create), and with --notifier notifiers (read). A personal token (xapt-)
needs AXIOM_ORG_ID, too. AXIOM_URL is Axiom's address, if your account is not at https://api.axiom.co;
https://api.eu.axiom.co where the console is app.eu.axiom.co. All steps: docs/telemetry.md.

` + cli.ExitCodesFor(cli.ExitOK, cli.ExitError, cli.ExitUsage, cli.ExitAuth, cli.ExitUnavailable),
		Example: `  AXIOM_TOKEN=xaat-... millrace axiom apply --dataset millrace --dry-run
  AXIOM_TOKEN=xaat-... millrace axiom apply -c service.yaml --notifier on-call`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := flags.service(env)
			if err != nil {
				return err
			}
			if dataset == "" {
				dataset = cfg.Axiom.Dataset
			}
			switch {
			case cfg.Axiom.Token == "":
				return usage("no token: set AXIOM_TOKEN")
			case dataset == "":
				return usage("no dataset: add --dataset NAME, or set AXIOM_DATASET or axiom.dataset")
			}
			axiom, err := resources.Connect(cfg.Axiom.Token.Reveal(), cfg.Axiom.OrgID, cfg.Axiom.URL,
				&http.Client{Timeout: 30 * time.Second, Transport: env.http.Transport})
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
		fmt.Fprintf(env.stdout, "%s %s %s\n", sign, c.Kind, c.Name)
		for _, line := range c.Diff {
			fmt.Fprintf(env.stdout, "    %s\n", line)
		}
	}
	changes := len(plan) - kept
	if changes == 0 {
		fmt.Fprintf(env.stdout, "nothing to do: the dataset %s, %d map fields, %d dashboards and %d monitors are as wanted\n",
			dataset, len(set.MapFields), len(set.Dashboards), len(set.Monitors))
		return nil
	}
	if dryRun {
		fmt.Fprintf(env.stdout, "%d to change, %d as wanted; without --dry-run they are changed\n", changes, kept)
		return nil
	}
	applied := 0
	err = resources.Apply(ctx, plan, func(c resources.Change, err error) {
		if err == nil {
			applied++
		}
	})
	fmt.Fprintf(env.stdout, "%d changed, %d as wanted\n", applied, kept)
	if err == nil && len(notifiers) == 0 {
		env.say("monitors that nobody attached a notifier to tell nobody: add --notifier NAME, or attach one in Axiom")
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

func newAxiomFakeCommand(env environment) *cobra.Command {
	var listen, keep string
	var faults []string
	fake := &axiomtest.Server{Strict: true}
	cmd := &cobra.Command{
		Use:   "fake",
		Short: "Run a fake Axiom for trials, with a page that shows what arrives and switches faults on",
		Long: `Run a fake Axiom, for trials without an account. It takes events, datasets, dashboards, monitors and
annotations with the limits and refusals that Axiom's documentation describes (November 2026; it was
never compared with the service itself), and answers queries in a subset of APL. At / it has a page that
shows what arrives, answers the dashboards, and switches faults on and off.`,
		Example: `  millrace axiom fake --listen 127.0.0.1:8790
  AXIOM_URL=http://127.0.0.1:8790 AXIOM_TOKEN=xaat-dev millrace axiom apply --dataset millrace`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range faults {
				if err := fake.Switch(name, true); err != nil {
					return usage("--fault: %v", err)
				}
			}
			if keep != "" {
				if err := fake.Keep(keep); err != nil {
					return err
				}
			}
			return serveFakeAxiom(cmd.Context(), env, fake, listen)
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:8790", "address to listen on")
	f.StringVar(&keep, "keep", "", "folder that keeps what arrives across restarts")
	f.StringVar(&fake.Token, "token", "", "the only token that is taken (default: every xaat- token)")
	f.StringSliceVar(&fake.Permissions, "permission", nil,
		"permission of the token, such as ingest|create; repeatable (default: all)")
	f.IntVar(&fake.Limits.Fields, "fields", 256, "fields that a dataset may have")
	f.IntVar(&fake.Limits.Monitors, "monitors", 500, "monitors that the plan allows; the smallest plan allows 3")
	f.IntVar(&fake.Limits.Datasets, "datasets", 100, "datasets that the plan allows; the smallest plan allows 3")
	f.StringSliceVar(&faults, "fault", nil, "fault that is on from the start; repeatable. The page lists them")
	cmd.AddCommand(newAxiomFaultCommand(env))
	return cmd
}

func serveFakeAxiom(ctx context.Context, env environment, fake *axiomtest.Server, listen string) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	env.say("fake Axiom on http://%s", l.Addr())
	server := &http.Server{Handler: fake, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	_ = server.Close() // whoever is being served is a test's
	<-ended
	return errInterrupted
}

func newAxiomFaultCommand(env environment) *cobra.Command {
	var url string
	cmd := &cobra.Command{
		Use:   "fault [NAME on|off]",
		Short: "List a fake Axiom's faults, or switch one on or off",
		Example: `  millrace axiom fake fault
  millrace axiom fake fault 503-text on`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 0 && (len(args) != 2 || args[1] != "on" && args[1] != "off") {
				return usage("want no arguments, or a fault's name and on or off")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				body, err := json.Marshal(map[string]any{"name": args[0], "on": args[1] == "on"})
				if err != nil {
					return err
				}
				return env.askFake(cmd.Context(), http.MethodPost, url+"/fake/faults", string(body))
			}
			return env.askFake(cmd.Context(), http.MethodGet, url+"/fake/faults", "")
		},
	}
	cmd.Flags().StringVar(&url, "url", "http://127.0.0.1:8790", "address of the fake Axiom")
	return cmd
}

// askFake makes a call of the fake's own, and writes its faults as a table.
func (e environment) askFake(ctx context.Context, method, url, body string) error {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return usage("--url: %v", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := e.http.Do(req)
	if err != nil {
		return unavailableIfDown(err)
	}
	defer resp.Body.Close() // it is only read
	var answer struct {
		Message string
		Faults  []axiomtest.FaultSwitch
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s is no fake Axiom: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return usage("%s", answer.Message)
	}
	t := table.New(table.Left("FAULT"), table.Left("STATE"), table.Right("REQUESTS"), table.Left("WHAT IT DOES"))
	for _, f := range answer.Faults {
		state := "off"
		if f.On {
			state = "on"
		}
		t.Row(f.Name, state, fmt.Sprint(f.Hits), f.Text)
	}
	return t.Write(e.stdout, 0)
}
