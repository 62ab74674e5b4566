package server

import (
	"testing"
	"time"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/process/connections"
)

// TestTheConfigurationBoundsCallers: a server that is configured with nothing bounds its callers all the same.
func TestTheConfigurationBoundsCallers(t *testing.T) {
	t.Parallel()
	cfg := config.DefaultService()
	cfg.Tokens = []connections.Secret{"correct-horse-battery"}
	got := apiConfig(cfg, "v1")
	want := api.Limits{Runs: 50, GamesPerRun: 8192, Requests: 256, WaitingClaims: 4096, Streams: 256, Connections: 8192,
		ConnectionsPerAddress: 128, StepMetricsBytes: 32 << 10}
	if got.Limits != want || got.MaxBodyBytes != 1<<20 || got.MaxWait != time.Minute ||
		got.Tokens[0] != "correct-horse-battery" || got.Validate() != nil {
		t.Errorf("%+v, %v", got, got.Validate())
	}
	cfg.Limits.ClaimWait, cfg.Limits.Runs = 7e9, 3
	if got := apiConfig(cfg, "v1"); got.MaxWait != 7*time.Second || got.Limits.Runs != 3 {
		t.Errorf("%+v", got)
	}
}
