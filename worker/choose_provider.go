package worker

import (
	"fmt"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/provider"
)

// chooseProvider is what gets this deployment's engines. Nil: nothing does, others go by the number that is wanted.
func chooseProvider(cfg config.Service) (provider.Provider, error) {
	switch s := cfg.Scaling; s.Provider {
	case config.ProviderAdvise:
		return nil, nil
	default:
		return nil, fmt.Errorf("scaling.provider %s: there is no such provider", s.Provider)
	}
}
