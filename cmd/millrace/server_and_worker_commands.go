package main

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/kit/version"
	"github.com/millrace/millrace/internal/process/reload"
	"github.com/millrace/millrace/internal/process/server"
	"github.com/millrace/millrace/worker"
	"github.com/millrace/millrace/worker/workerconfig"
)

func newServerCommand(env environment) *cobra.Command {
	var flags serviceFlags
	var listen string
	var one server.OneVLLM
	cmd := &cobra.Command{
		Use:  "server",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("listen") {
				flags.listen = listen
			}
			if (one.Listen == "") != (one.Run == "") {
				return usage("--vllm-listen says where, and --as which run is served there: give both")
			}
			return flags.serve(cmd.Context(), env, func(ctx context.Context, cfg config.Service, log *slog.Logger) error {
				return server.Run(ctx, cfg, version.String(), log, one)
			})
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8700", "address of the API")
	cmd.Flags().StringVar(&one.Listen, "vllm-listen", "", "answer as one vLLM on this address, host:port, with the fleet "+
		"behind it; see docs/engines.md")
	cmd.Flags().StringVar((*string)(&one.Run), "as", "", "the run whose models --vllm-listen serves")
	return cmd
}

func newWorkerCommand(env environment) *cobra.Command {
	var flags serviceFlags
	cmd := &cobra.Command{
		Use:  "worker",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.serve(cmd.Context(), env, runWorker)
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&flags.probes, "listen", "", "address for /healthz, /readyz and /metrics, as host:port; "+
		"none by default")
	cmd.Flags().StringVar(&flags.dispatch, "dispatch-log", "", "write every event and decision of the dispatcher to this "+
		"file, up to 1 GiB; see docs/engines.md")
	return cmd
}

// runWorker runs a worker with the provider that its configuration names, and tells it what changes in the file.
func runWorker(ctx context.Context, cfg config.Service, log *slog.Logger) error {
	files := reload.NewFiles(log)
	current := reload.NewConfiguration(cfg, files, log) // first: what changes while the worker starts is a change, too
	provider, engines, err := chooseProvider(cfg, log)
	if err != nil {
		return err
	}
	return worker.Run(ctx, cfg.ForWorker(), worker.Wiring{
		Provider: provider, Engines: engines,
		Changes: func(ctx context.Context, apply func(workerconfig.Config) error) {
			current.OnChange(func(next config.Service) error {
				return apply(next.ForWorker())
			})
			files.Watch(ctx)
		},
	}, log)
}
