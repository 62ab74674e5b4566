// Package demo is the section of a run's file that sizes what millrace dev simulates around the run. It is no part of
// the run's spec: millrace dev, simulate and plan read it, the service does not keep it. Start reading at Section.
package demo

import (
	_ "embed"

	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/rollout"
)

// Section is engines and a trainer. Times are those of the modelled hardware; Speed divides them all. Zeroes are
// written, because a reader would take what is missing for its own default.
type Section struct {
	Engines          int              `json:"engines"`
	MaxEngines       int              `json:"max_engines"`
	ColdStart        rollout.Duration `json:"cold_start"`
	EngineMaxNumSeqs int              `json:"engine_max_num_seqs"`
	Speed            float64          `json:"speed"`
	Load             rollout.Duration `json:"load"`
	RefLogprobs      rollout.Duration `json:"ref_logprobs"`
	Train            rollout.Duration `json:"train"`
	Publish          rollout.Duration `json:"publish"`
}

// MaxInFlight is the limit of requests in flight for a simulated engine: a few more than it runs at once, so that the
// next one is there when one has ended. 0 leaves it to the service.
func (s Section) MaxInFlight() int {
	if s.EngineMaxNumSeqs == 0 {
		return 0
	}
	return s.EngineMaxNumSeqs + max(1, s.EngineMaxNumSeqs/8)
}

// Faults is everything that is wrong with the section of a file's value.
func Faults(file any, reading settings.Reading) settings.Faults { return Keys.Check(file, reading) }

// Keys is one row for every key of the section, which stands under the name demo.
var Keys = settings.ReadTable(keysFile)

//go:embed demo_keys.json
var keysFile []byte
