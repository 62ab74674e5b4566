package rollout

// Usage is what a piece of work cost the engines.
type Usage struct {
	Requests       int64   `json:"requests"`
	InputTokens    int64   `json:"input_tokens"`
	OutputTokens   int64   `json:"output_tokens"`
	CachedTokens   int64   `json:"cached_tokens"`
	ExecSec        float64 `json:"exec_seconds"`    // summed over requests: time in flight at an engine
	QueueSec       float64 `json:"queue_seconds"`   // summed over requests: time in the dispatcher's queue
	RepeatedTokens int64   `json:"repeated_tokens"` // generated again because a worker died inside a phase
}

// UsagePart is what the usage of a run is told apart by.
type UsagePart struct {
	Engine  EngineID
	Version PolicyVersion
	Adapter string // or base model, as engines serve it
}

// Add sums u and v.
func (u Usage) Add(v Usage) Usage {
	u.Requests += v.Requests
	u.InputTokens += v.InputTokens
	u.OutputTokens += v.OutputTokens
	u.CachedTokens += v.CachedTokens
	u.ExecSec += v.ExecSec
	u.QueueSec += v.QueueSec
	u.RepeatedTokens += v.RepeatedTokens
	return u
}
