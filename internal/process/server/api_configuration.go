package server

import (
	"net/netip"
	"time"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/face/api"
)

// apiConfig is the part of the configuration that the HTTP API goes by.
func apiConfig(s config.Service, version string) api.Config {
	l := s.Limits
	cfg := api.Config{Listen: s.Listen, MaxBodyBytes: l.MaxBodyBytes, MaxWait: time.Duration(l.ClaimWait),
		Version: version, Retention: s.Retention.Std(),
		Limits: api.Limits{
			Runs: l.Runs, GamesPerRun: l.GamesPerRun, Requests: l.Requests, WaitingClaims: l.WaitingClaims,
			Streams: l.Streams, Connections: l.Connections, ConnectionsPerAddress: l.ConnectionsPerAddress,
			StepMetricsBytes: l.StepMetricsBytes,
		}}
	for _, network := range s.Auth.TrustedProxies {
		if prefix, err := netip.ParsePrefix(network); err == nil { // config.ReadService has checked it
			cfg.TrustedProxies = append(cfg.TrustedProxies, prefix)
		}
	}
	for _, t := range s.Tokens {
		cfg.Tokens = append(cfg.Tokens, t.Reveal())
	}
	return cfg
}
