// Package enginestate is what is known of engines and workers: states, loads, breakers, demand. It holds values;
// packages fleet and workerregistry keep them in Redis. Start reading at Engine, then Worker.
package enginestate

import (
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// EngineState is where an engine is in its life: one set of words for whoever speaks of engines. A provider tells
// ordered, running, stopping and failed; the fleet tells starting to lost; an engine that is bought goes from starting
// to stopping.
type EngineState string

// The engine states, as an engine comes into them. Only a ready engine is given requests.
const (
	EngineOrdered     EngineState = "ordered"  // asked for; it has no process or machine yet
	EngineRunning     EngineState = "running"  // its process runs; whether it serves is not its provider's to know
	EngineStarting    EngineState = "starting" // not ready yet: health, version, models, one canary completion
	EngineLoading     EngineState = "loading"  // loads the adapters in use
	EngineReady       EngineState = "ready"
	EngineDraining    EngineState = "draining"    // finishes what it has
	EngineQuarantined EngineState = "quarantined" // answers, but makes no completions; tried with one canary at a time
	EngineLost        EngineState = "lost"        // not answering; probed until it comes back
	EngineStopping    EngineState = "stopping"    // told to end
	EngineFailed      EngineState = "failed"      // ended by itself, or could not be started
)

// Engine is one vLLM server of the fleet.
type Engine struct {
	ID  rollout.EngineID `json:"id"`
	URL string           `json:"url"` // http://host:port, without /v1
	// the list that names it; empty: an operator or the configuration did
	Source      string      `json:"source,omitempty"`
	State       EngineState `json:"state"`
	Reason      string      `json:"reason,omitempty"` // of the state
	Since       time.Time   `json:"since"`
	MaxInFlight int         `json:"max_in_flight"`      // requests, over all workers
	Slow        string      `json:"slow,omitempty"`     // how it lags behind the fleet; empty: it does not. See Limit
	Recalled    bool        `json:"recalled,omitempty"` // what it has is dispatched elsewhere
	Models      []string    `json:"models,omitempty"`   // base models served
	Adapters    []string    `json:"adapters,omitempty"` // as verified by /v1/models
	// Troubles are adapters that it should serve and cannot, and those whose files have changed, by name, with the
	// reason. The engine is ready for everything else.
	Troubles map[string]string `json:"troubles,omitempty"`
	// Proofs are what its answers to the probes of adapters said, by name. One that it serves and that is not among them
	// has no probes.
	Proofs map[string]AdapterProof `json:"proofs,omitempty"`
	// AdapterSlots is how many adapters fit into one of its batches (--max-loras); 0: it does not tell.
	AdapterSlots int `json:"adapter_slots,omitempty"`
	// NoAdapters is why it can load no adapter at all; empty: it can, or does not tell.
	NoAdapters string     `json:"no_adapters,omitempty"`
	Version    string     `json:"version,omitempty"` // of the engine's software
	Load       EngineLoad `json:"load"`
	// Elsewhere is how many requests other workers have in flight there, as a worker's dispatcher is told; else 0.
	Elsewhere int `json:"-"`
	// Closures is which workers do not dispatch to it, and why. Only answers of the API tell.
	Closures []Closure `json:"closures,omitempty"`
	// Uses is what workers use its models for, by model and run. Only answers of the API tell.
	Uses []EngineUse `json:"uses,omitempty"`
}

// Limit is how many requests the engine is given at most: half as many as it may have while it is slow.
func (e Engine) Limit() int {
	if e.Slow == "" {
		return e.MaxInFlight
	}
	return max(1, e.MaxInFlight/2)
}

// FewestSlots is the fewest adapters that one of the engines that tell has room for in a batch; 0: none tells.
func FewestSlots(engines []Engine) int {
	least := 0
	for _, e := range engines {
		if n := e.AdapterSlots; n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// EngineLoad is the latest sample of an engine's own metrics.
type EngineLoad struct {
	At time.Time `json:"at,omitzero"`
	// LifeAt is the keeper's latest sign of life: the engine's token counter moved, or it answered a canary.
	LifeAt    time.Time `json:"life_at,omitzero"`
	Running   float64   `json:"running"`
	Waiting   float64   `json:"waiting"`
	KVUsage   float64   `json:"kv_usage"`  // 0..1
	InputTPS  float64   `json:"input_tps"` // counter difference over WindowSec
	OutputTPS float64   `json:"output_tps"`
	WindowSec float64   `json:"window_seconds"`
	// InputTokens and OutputTokens are the engine's own counters at At, since it was started: who looks next, whether or
	// not the same process, continues from them. 0: not known.
	InputTokens    float64 `json:"input_tokens,omitzero"`
	OutputTokens   float64 `json:"output_tokens,omitzero"`
	PrefixHitShare float64 `json:"prefix_hit_share"` // 0..1, over the window
	// requests thrown out of the batch for lack of memory, in the window
	Preemptions float64 `json:"preemptions"`
	// Requests is how many were answered in the window, and RequestSec the mean time that they took in the engine.
	Requests   float64 `json:"requests,omitempty"`
	RequestSec float64 `json:"request_seconds,omitempty"`
	// mean wait in dispatch queues of the requests answered in the window
	QueueSec float64 `json:"queue_seconds"`

	// UsageInputError and UsageOutputError are the engine's counted tokens less those that its answers to workers
	// account for, as a share of the larger: above 0 the engine did more than the workers were answered. They speak
	// for the latest UsageWindowSec, in which the engine was not restarted; where that is 0, nothing is known.
	UsageInputError  float64 `json:"usage_input_error"`
	UsageOutputError float64 `json:"usage_output_error"`
	UsageWindowSec   float64 `json:"usage_window_seconds"`
}
