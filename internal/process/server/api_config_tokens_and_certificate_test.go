package server

import (
	"testing"
	"time"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/process/connections"
)

// TestTheConfigurationHasTheAPIsDefaults: a server that is configured with nothing bounds its callers as one in a test.
func TestTheConfigurationHasTheAPIsDefaults(t *testing.T) {
	t.Parallel()
	cfg := config.DefaultService()
	cfg.Tokens = []connections.Secret{"correct-horse-battery"}
	got := apiConfig(cfg, "v1")
	if got.Limits != api.DefaultLimits() || got.MaxBodyBytes != api.DefaultMaxBodyBytes ||
		got.MaxWait != api.DefaultMaxWait ||
		got.Tokens[0] != "correct-horse-battery" || got.Validate() != nil {
		t.Errorf("%+v, %v", got, got.Validate())
	}
	cfg.Limits.ClaimWait, cfg.Limits.Runs = 7e9, 3
	if got := apiConfig(cfg, "v1"); got.MaxWait != 7*time.Second || got.Limits.Runs != 3 {
		t.Errorf("%+v", got)
	}
}
