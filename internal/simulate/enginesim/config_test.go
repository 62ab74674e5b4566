package enginesim

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestConfigFaults(t *testing.T) {
	t.Parallel()
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("the default: %v", err)
	}
	for _, tt := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Model = "" }, "model"},
		{func(c *Config) { c.Speed = 0 }, "speed"},
		{func(c *Config) { c.Speed = math.NaN() }, "speed"},
		{func(c *Config) { c.Speed = math.Inf(1) }, "speed"},
		{func(c *Config) { c.MaxNumSeqs = 0 }, "sequences"},
		{func(c *Config) { c.MaxBatchedTokens = 10 }, "batched tokens"},
		{func(c *Config) { c.KVTokens = 10 }, "KV tokens"},
		{func(c *Config) { c.MaxLoRARank = 12 }, "rank"},
		{func(c *Config) { c.MaxCPULoRAs = 1 }, "CPU LoRAs"},
		{func(c *Config) { c.Cost.LoRA = 0.5 }, "LoRA factor"},
		{func(c *Config) { c.ColdStart = -time.Second }, "cold start"},
	} {
		cfg := DefaultConfig()
		tt.change(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want a fault of %q", err, tt.want)
		}
	}
	broken := DefaultConfig()
	broken.Model, broken.Speed = "", -1
	if err := broken.Validate(); !strings.Contains(err.Error(), "model") || !strings.Contains(err.Error(), "speed") {
		t.Errorf("faults must be reported together, got %v", err)
	}
}
