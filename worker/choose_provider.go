package worker

import (
	"fmt"
	"log/slog"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/connections"
	"github.com/millrace/millrace/internal/provider"
	"github.com/millrace/millrace/internal/provider/exec"
	"github.com/millrace/millrace/internal/provider/kubernetes"
	engineprocess "github.com/millrace/millrace/internal/provider/process"
)

// chooseProvider is what gets this deployment's engines. Nil: nothing does, others go by the number that is wanted.
func chooseProvider(cfg config.Service, log *slog.Logger) (provider.Provider, error) {
	switch s := cfg.Scaling; s.Provider {
	case config.ProviderAdvise:
		return nil, nil
	case config.ProviderKubernetes:
		return kubernetes.New(*s.Kubernetes, connections.DeploymentName(cfg), log)
	case config.ProviderProcess:
		return engineprocess.New(*s.Process, connections.DeploymentName(cfg))
	case config.ProviderExec:
		return exec.New(*s.Exec, connections.DeploymentName(cfg))
	default:
		return nil, fmt.Errorf("scaling.provider %s: there is no such provider", s.Provider)
	}
}
