package enginestate

import (
	"github.com/millrace/millrace/internal/rollout"
)

// EngineView is one engine over a window of wall time, as its own metrics tell: means over the time in which it was
// ready. A record holds at most MaxEngineViews of them, and MaxLoadBins bins in all.
type EngineView struct {
	Engine         rollout.EngineID `json:"engine"`
	WindowSec      float64          `json:"window_seconds"` // of the time in which it was ready
	Running        float64          `json:"running"`        // requests in its batch
	Waiting        float64          `json:"waiting"`        // requests in its own queue
	InFlight       float64          `json:"in_flight"`      // both
	Limit          float64          `json:"limit"`          // requests that it may have in flight
	InputTPS       float64          `json:"input_tps"`
	OutputTPS      float64          `json:"output_tps"`
	RequestSec     float64          `json:"request_seconds,omitempty"` // mean time of the requests answered; 0: not known
	Requests       float64          `json:"requests,omitempty"`        // answered
	PrefixHitShare float64          `json:"prefix_hit_share,omitempty"`
	Preemptions    float64          `json:"preemptions,omitempty"`
	KVUsage        float64          `json:"kv_usage,omitempty"`
	// Loads is what it did at which load: stretches of the window, one after another.
	Loads []LoadBin `json:"loads,omitempty"`
}

// LoadBin is what an engine did in a stretch of time, in which it had so many requests in flight. Bins of several
// windows, and of several engines of a kind, add up: see Add.
type LoadBin struct {
	InFlight     float64 `json:"in_flight"` // mean over Sec
	Sec          float64 `json:"seconds"`
	InputTokens  float64 `json:"input_tokens"` // that no cache held
	OutputTokens float64 `json:"output_tokens"`
	Requests     float64 `json:"requests,omitempty"` // answered
}

// Bounds of the engines in one step's record: at most 24 kB of JSON, whatever the fleet.
const (
	MaxEngineViews = 64
	MaxLoadBins    = 64
	// LoadStretch is the seconds of one bin at least: long enough for prompts and answers to balance.
	LoadStretch = 5
)

// EngineLoadBins is how many bins each of so many engines has at most.
func EngineLoadBins(engines int) int { return min(16, MaxLoadBins/max(1, engines)) }

// Add is both bins as one.
func (b LoadBin) Add(o LoadBin) LoadBin {
	sec := b.Sec + o.Sec
	if sec <= 0 {
		return b
	}
	return LoadBin{
		InFlight: (b.InFlight*b.Sec + o.InFlight*o.Sec) / sec, Sec: sec, InputTokens: b.InputTokens + o.InputTokens,
		OutputTokens: b.OutputTokens + o.OutputTokens, Requests: b.Requests + o.Requests,
	}
}

// FewerLoads is bins, at most so many: neighbours as one. Bins are never joined by their load: what is picked for its
// load is picked for the error of its load, and engines would look more saturated than they are.
func FewerLoads(bins []LoadBin, most int) []LoadBin {
	if most < 1 {
		return nil
	}
	per := max(1, (len(bins)+most-1)/most)
	var out []LoadBin
	for i, b := range bins {
		if i%per == 0 {
			out = append(out, LoadBin{})
		}
		out[len(out)-1] = out[len(out)-1].Add(b)
	}
	return out
}
