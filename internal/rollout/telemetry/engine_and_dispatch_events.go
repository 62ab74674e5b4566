package telemetry

import (
	"maps"
	"slices"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// EngineChanged reports an engine's new state.
type EngineChanged struct {
	State  enginestate.EngineState `json:"state"`
	Reason string                  `json:"reason,omitempty"`
}

var engineChangedKind = fact[EngineChanged]("engine_changed")

func (EngineChanged) kind() *kind { return engineChangedKind }

func (b EngineChanged) row(r Row) {
	r["state"] = b.State
	r.text("reason", b.Reason)
}

// EnginePaced reports that an engine began or ceased to lag behind the fleet.
type EnginePaced struct {
	Slow string `json:"slow"` // how it lags; empty: no longer
}

var enginePacedKind = fact[EnginePaced]("engine_paced")

func (EnginePaced) kind() *kind { return enginePacedKind }

func (b EnginePaced) row(r Row) {
	r["lagging"] = b.Slow != ""
	r.text("reason", b.Slow)
}

// BreakerChanged reports that a worker stopped giving an engine requests, or does so again: those of the run in
// whose events it is, or of every run.
type BreakerChanged struct {
	Worker string `json:"worker"`
	Open   bool   `json:"open"` // no requests for now
	Reason string `json:"reason,omitempty"`
}

var breakerChangedKind = fact[BreakerChanged]("breaker_changed")

func (BreakerChanged) kind() *kind { return breakerChangedKind }

func (b BreakerChanged) row(r Row) {
	r["worker"], r["open"] = b.Worker, b.Open
	r.text("reason", b.Reason)
}

// EngineSample is an engine's load and throughput, from its own counters, and how far these agree with what workers
// were answered.
type EngineSample struct {
	Load enginestate.EngineLoad `json:"load"`
}

var engineSampleKind = sample[EngineSample]("engine_sample")

func (EngineSample) kind() *kind { return engineSampleKind }

func (b EngineSample) row(r Row) {
	l := b.Load
	r["running_requests"], r["waiting_requests"], r["kv_usage"] = l.Running, l.Waiting, l.KVUsage
	r["input_tokens_per_s"], r["output_tokens_per_s"], r["window_s"] = l.InputTPS, l.OutputTPS, l.WindowSec
	r["prefix_hit_share"], r["preemptions"], r["queue_mean_s"] = l.PrefixHitShare, l.Preemptions, l.QueueSec
	if l.UsageWindowSec > 0 {
		r["usage_input_error"], r["usage_output_error"] = l.UsageInputError, l.UsageOutputError
		r["usage_window_s"] = l.UsageWindowSec
	}
}

// DispatchSample is a worker's dispatcher over a window: rates per run from usage, which must agree with the
// engines' counters.
type DispatchSample struct {
	WindowSec float64                  `json:"window_s"`
	Queued    int                      `json:"queued_requests"`
	InFlight  map[rollout.EngineID]int `json:"in_flight"`
	Rejected  map[rollout.Code]int64   `json:"rejected,omitempty"` // by reason
	InputTPS  float64                  `json:"input_tokens_per_s"`
	OutputTPS float64                  `json:"output_tokens_per_s"`
	// ByVersion is a run's rates by the policy version that answered; they add up to the run's. Versions without
	// tokens in the window are left out, and so are all of them in the sample of the whole.
	ByVersion map[rollout.PolicyVersion]TokenRate `json:"by_policy_version,omitempty"`
}

// TokenRates is the tokens that one engine's answers to one run's requests had, of one policy version and adapter, over
// a window. Over all rows they add up to what the engines count themselves, less what was not answered: requests that
// were cut off, and canaries.
type TokenRates struct {
	Version      rollout.PolicyVersion `json:"policy_version"`
	Adapter      string                `json:"adapter"` // or base model, as engines serve it
	WindowSec    float64               `json:"window_s"`
	InputTokens  int64                 `json:"input_tokens"`
	OutputTokens int64                 `json:"output_tokens"`
	CachedTokens int64                 `json:"cached_tokens"` // of the input, found in the prefix cache
	Requests     int64                 `json:"requests"`
}

var tokenRatesKind = fact[TokenRates]("token_rates")

func (TokenRates) kind() *kind { return tokenRatesKind }

func (b TokenRates) row(r Row) {
	r["policy_version"], r["adapter"], r["window_s"] = b.Version, b.Adapter, b.WindowSec
	r["input_tokens"], r["output_tokens"], r["cached_tokens"] = b.InputTokens, b.OutputTokens, b.CachedTokens
	r["requests"] = b.Requests
	if b.WindowSec > 0 {
		r["input_tokens_per_s"] = float64(b.InputTokens) / b.WindowSec
		r["output_tokens_per_s"] = float64(b.OutputTokens) / b.WindowSec
	}
}

// TokenRate is tokens per second in both directions.
type TokenRate struct {
	InputTPS  float64 `json:"input_tokens_per_s"`
	OutputTPS float64 `json:"output_tokens_per_s"`
}

var dispatchSampleKind = sample[DispatchSample]("dispatch_sample")

func (DispatchSample) kind() *kind { return dispatchSampleKind }

func (b DispatchSample) row(r Row) {
	r["window_s"], r["queued_requests"] = b.WindowSec, b.Queued
	r["in_flight_requests"] = stat.Sum(maps.Values(b.InFlight))
	r["rejected_requests"] = stat.Sum(maps.Values(b.Rejected))
	r["input_tokens_per_s"], r["output_tokens_per_s"] = b.InputTPS, b.OutputTPS
	r.versions(b.ByVersion)
}

// versions tells of a run's versions how many were sampled from, and what the newest did. A field for each would
// fill a sink with fields.
func (r Row) versions(rates map[rollout.PolicyVersion]TokenRate) {
	if len(rates) == 0 {
		return
	}
	newest := slices.Max(slices.Collect(maps.Keys(rates)))
	r["policy_versions"], r["policy_version"] = len(rates), newest
	r["newest_input_tokens_per_s"], r["newest_output_tokens_per_s"] = rates[newest].InputTPS, rates[newest].OutputTPS
}
