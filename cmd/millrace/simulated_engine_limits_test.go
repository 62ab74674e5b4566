package main

import (
	"testing"

	"github.com/millrace/millrace/internal/simulate/enginesim"
)

// A flag goes before the profile's limit, also where another limit has to follow it.
func TestLimitsOfASimulatedEngine(t *testing.T) {
	t.Parallel()
	for _, asked := range []int{8, 32} {
		cfg := enginesim.DefaultConfig()
		cfg.MaxLoRAs = asked
		err := follow(&cfg, "a100-80gb", func(flag string) bool { return flag == "max-loras" })
		if err != nil || cfg.MaxLoRAs != asked || cfg.Validate() != nil {
			t.Errorf("--max-loras %d: %v, %v", asked, err, cfg.Validate())
		}
	}
}
