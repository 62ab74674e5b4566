package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/scaling/provider"
	"github.com/millrace/millrace/internal/scaling/provider/exec"
	"github.com/millrace/millrace/internal/scaling/provider/kubernetes"
	engineprocess "github.com/millrace/millrace/internal/scaling/provider/process"
)

// chooseProvider is what gets this deployment's engines, and what its engines are called. Nil: nothing gets any, others
// go by the number that is wanted.
func chooseProvider(cfg config.Service, log *slog.Logger) (from provider.Provider, engines string, err error) {
	if cfg.Scaling == nil {
		return nil, "", nil
	}
	// The name by which a provider knows this deployment's engines.
	deployment := cmp.Or(cfg.Scaling.DeploymentName(), cfg.DeploymentName())
	switch s := cfg.Scaling; s.Provider {
	case config.ProviderAdvise:
		return nil, "", nil
	case config.ProviderKubernetes:
		from, err = kubernetes.New(*s.Kubernetes, deployment, log)
	case config.ProviderProcess: // its engines are this host's
		warnOfOrphans(*s.Process, deployment, log)
		if from, err = engineprocess.New(*s.Process, deployment); err == nil {
			engines, err = os.Hostname()
			engines += "/"
		}
	case config.ProviderExec:
		from, err = exec.New(*s.Exec, deployment)
	default:
		err = fmt.Errorf("scaling.provider %s: there is no such provider", s.Provider)
	}
	return from, engines + deployment, err
}
