package main

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/observe/axiom/axiomtest"
)

func newAxiomCommand(env environment) *cobra.Command {
	var listen string
	var faults []string
	fake := &axiomtest.Server{Strict: true}
	cmd := &cobra.Command{
		Use:   "axiom",
		Short: "Run a fake Axiom, with a page that shows what arrives and switches faults on",
		Long: `Run a fake Axiom, for trials without an account. It takes events, datasets, dashboards, monitors and
annotations with the limits and refusals that Axiom's documentation describes (November 2026; it was never compared
with the service itself). At / it has a page that shows what arrives, and switches faults on and off.`,
		Example: `  millrace-lab axiom &
  export AXIOM_URL=http://127.0.0.1:8790 AXIOM_TOKEN=xaat-dev AXIOM_DATASET=millrace
  millrace axiom apply
  millrace dev --spec config/examples/seed-004.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range faults {
				if err := fake.Switch(name, true); err != nil {
					return usage("--fault: %v", err)
				}
			}
			return serveFakeAxiom(cmd.Context(), env, fake, listen)
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:8790", "address to listen on")
	f.StringVar(&fake.Token, "token", "", "the only token that is taken (default: every xaat- token)")
	f.StringSliceVar(&fake.Permissions, "permission", nil,
		"permission of the token, such as ingest|create; repeatable (default: all)")
	f.IntVar(&fake.Limits.Fields, "fields", 256, "fields that a dataset may have")
	f.IntVar(&fake.Limits.Monitors, "monitors", 500, "monitors that the plan allows; the smallest plan allows 3")
	f.IntVar(&fake.Limits.Datasets, "datasets", 100, "datasets that the plan allows; the smallest plan allows 3")
	f.StringSliceVar(&faults, "fault", nil, "fault that is on from the start; repeatable. The page lists them")
	return cmd
}

// serveFakeAxiom serves until Ctrl-C.
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
	return nil
}
