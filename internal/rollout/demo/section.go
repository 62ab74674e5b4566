// Package demo is the section of a run's file that sizes what millrace dev simulates around the run. It is no part of
// the run's spec: millrace dev, simulate and plan read it, the service does not keep it.
package demo

import (
	"time"

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

// SetDefaults gives a file's value what the section says where it says nothing.
func SetDefaults(file any) {
	for _, key := range Keys {
		if key.Default != nil {
			key.SetDefault(file)
		}
	}
}

// Faults is everything that is wrong with the section of a file's value.
func Faults(file any, reading settings.Reading) settings.Faults {
	return settings.Table{Keys: Keys}.Check(file, reading)
}

func at(bound float64) *float64 { return settings.Bound(bound) }

// Keys is one row for every key of the section, which stands under the name demo.
var Keys = []settings.Key{
	{Path: "demo", Doc: "what millrace dev simulates around the run; servers and workers ignore it"},
	{Path: "demo.engines", Default: 2, Min: at(1), Max: at(64), Doc: "simulated engines"},
	{Path: "demo.max_engines", Min: at(0), Max: at(64),
		Doc: "how many simulated engines the service may buy, demo.engines at least (docs/scaling.md); 0: it does not " +
			"scale its fleet"},
	{Path: "demo.cold_start", Min: at(0), Max: at(3600),
		Doc: "a simulated engine's time from its start to its first answer"},
	{Path: "demo.engine_max_num_seqs", Default: 64, Min: at(1), Max: at(4096),
		Doc: "requests that a simulated engine runs at a time"},
	{Path: "demo.speed", Default: 20, Above: at(0), Max: at(10_000), Doc: "divides every simulated time"},
	{Path: "demo.load", Default: 5 * time.Second, Min: at(0), Doc: "the demo trainer's time to load a batch"},
	{Path: "demo.ref_logprobs", Default: 30 * time.Second, Min: at(0),
		Doc: "its time for reference log-probabilities"},
	{Path: "demo.train", Default: time.Minute, Min: at(0), Doc: "its time to train"},
	{Path: "demo.publish", Default: 5 * time.Second, Min: at(0), Doc: "its time to write an adapter"},
}
