package worker

import (
	"cmp"
	"fmt"
	"log/slog"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/process/connections"
	"github.com/millrace/millrace/internal/scaling/provider"
	"github.com/millrace/millrace/internal/scaling/provider/exec"
	"github.com/millrace/millrace/internal/scaling/provider/kubernetes"
	engineprocess "github.com/millrace/millrace/internal/scaling/provider/process"
)

// chooseProvider is what gets this deployment's engines. Nil: nothing does, others go by the number that is wanted.
func chooseProvider(cfg config.Service, log *slog.Logger) (provider.Provider, error) {
	deployment := engineOwner(cfg)
	switch s := cfg.Scaling; s.Provider {
	case config.ProviderAdvise:
		return nil, nil
	case config.ProviderKubernetes:
		return kubernetes.New(*s.Kubernetes, deployment, log)
	case config.ProviderProcess:
		return engineprocess.New(*s.Process, deployment)
	case config.ProviderExec:
		return exec.New(*s.Exec, deployment)
	default:
		return nil, fmt.Errorf("scaling.provider %s: there is no such provider", s.Provider)
	}
}

// engineOwner is the name by which a provider knows this deployment's engines.
func engineOwner(cfg config.Service) string {
	return cmp.Or(cfg.Scaling.DeploymentName(), connections.DeploymentName(cfg))
}
