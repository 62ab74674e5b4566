package main

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/simulate/enginesim"
	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
)

func newSimulateEngineCommand(env environment) *cobra.Command {
	cfg := enginesim.DefaultConfig()
	host, port, profile := "127.0.0.1", 8000, enginemodel.DefaultProfile
	cmd := &cobra.Command{
		Use:  "simulate",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := follow(&cfg, profile, cmd.Flags().Changed); err != nil {
				return err
			}
			return simulateEngine(cmd.Context(), env, cfg, net.JoinHostPort(host, strconv.Itoa(port)))
		},
	}
	f := cmd.Flags()
	f.StringVar(&host, "host", host, "address to listen on")
	f.IntVar(&port, "port", port, "port to listen on; 0 takes a free one")
	f.StringVar(&cfg.Model, "model", cfg.Model, "served name of the base model")
	f.StringVar(&profile, "profile", profile, "hardware profile, by name or file, whose times and limits the engine has; "+
		"see millrace simulate profiles")
	f.Float64Var(&cfg.Speed, "speed", cfg.Speed, "divide all simulated times by this")
	f.IntVar(&cfg.MaxNumSeqs, "max-num-seqs", cfg.MaxNumSeqs, "sequences run at once")
	f.IntVar(&cfg.MaxBatchedTokens, "max-num-batched-tokens", cfg.MaxBatchedTokens, "token budget of one step")
	f.IntVar(&cfg.KVTokens, "kv-tokens", cfg.KVTokens, "size of the KV cache in tokens")
	f.BoolVar(&cfg.PrefixCaching, "prefix-caching", cfg.PrefixCaching, "keep the prompts' shared beginnings computed "+
		"(--enable-prefix-caching)")
	f.IntVar(&cfg.MaxLoRAs, "max-loras", cfg.MaxLoRAs, "adapters in one batch")
	f.IntVar(&cfg.MaxLoRARank, "max-lora-rank", cfg.MaxLoRARank, "highest rank of an adapter")
	f.BoolVar(&cfg.RuntimeLoRA, "runtime-lora", cfg.RuntimeLoRA, "serve the routes that load adapters "+
		"(VLLM_ALLOW_RUNTIME_LORA_UPDATING)")
	f.BoolVar(&cfg.Policy, "policy", cfg.Policy, "serve the small policies that millrace trainer demo --learn writes as "+
		"adapters")
	f.DurationVar(&cfg.ColdStart, "cold-start", cfg.ColdStart, "simulated time from start to the first answer")
	f.Uint64Var(&cfg.Seed, "seed", cfg.Seed, "seed of requests that bring none")
	f.StringVar(&cfg.APIKey, "api-key", cfg.APIKey, "bearer token asked for under /v1")
	f.BoolVar(&cfg.FaultRoute, "faults", cfg.FaultRoute, "serve POST /sim/faults, which makes the engine fail on purpose")
	return cmd
}

// follow gives an engine the times of a profile, and its limits where no flag says otherwise.
func follow(cfg *enginesim.Config, profile string, given func(flag string) bool) error {
	p, err := enginemodel.LoadProfile(profile)
	if err != nil {
		return usage("--profile: %v", err)
	}
	limits := p.Limits()
	cfg.Cost, cfg.BlockSize = p.Cost(1), limits.Block
	for _, l := range []struct {
		flag  string
		value *int
		limit int
	}{
		{"max-num-seqs", &cfg.MaxNumSeqs, limits.Sequences},
		{"max-num-batched-tokens", &cfg.MaxBatchedTokens, limits.Tokens},
		{"kv-tokens", &cfg.KVTokens, limits.KV},
		{"max-loras", &cfg.MaxLoRAs, limits.Adapters},
	} {
		if !given(l.flag) {
			*l.value = l.limit
		}
	}
	cfg.MaxCPULoRAs = max(limits.HostAdapter, cfg.MaxLoRAs) // the CPU keeps at least what a batch may need, as vLLM's does
	return nil
}

func simulateEngine(ctx context.Context, env environment, cfg enginesim.Config, address string) error {
	engine, err := enginesim.New(cfg)
	if err != nil {
		return usage("%v", err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", address, err)
	}
	env.Say("simulated engine serving %s on http://%s", cfg.Model, l.Addr())
	return engine.Serve(ctx, l)
}
