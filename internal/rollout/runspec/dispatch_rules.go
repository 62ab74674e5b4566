package runspec

import (
	"github.com/millrace/millrace/internal/rollout"
)

// Dispatch says how a run's requests are spread over the engines, and in what order. The zero value of a field is its
// default.
type Dispatch struct {
	Policy               DispatchPolicy `json:"policy"`
	MaxInFlightPerEngine int            `json:"max_in_flight_per_engine,omitempty"` // 0: the engine's own limit

	// AffinitySlack is how many requests' worth of work more than the least loaded engine the one that holds a
	// game's prefix or adapter may have and still be preferred. 0: the dispatcher's default; negative: no affinity
	// of games.
	AffinitySlack int `json:"affinity_slack,omitempty"`
	// GroupPerEngine is how many episodes of a group start on one engine, to share the group's prefix, before the
	// next engine takes over. 0: a group's episodes start wherever there is least to do.
	GroupPerEngine int `json:"group_per_engine,omitempty"`
	// AdapterSlots is how many adapters an engine can have in its batch (vLLM: --max-loras). When more are in use, each
	// keeps to its own engines. 0: not known, and adapters go everywhere.
	AdapterSlots int `json:"adapter_slots,omitempty"`

	Order DispatchOrder `json:"order,omitempty"`
	// Ageing is for the order shortest_first: how many tokens a request seems shorter for each second that it waits.
	// 0: it never does, and long requests may starve.
	Ageing   float64       `json:"ageing,omitempty"`
	Queue    DispatchQueue `json:"queue,omitempty"`
	Batching Batching      `json:"batching,omitzero"`
}

// DispatchPolicy names a way of choosing an engine.
type DispatchPolicy string

// The dispatch policies.
const (
	LeastTokens DispatchPolicy = "least_tokens" // fewest outstanding tokens, with affinities
	RoundRobin  DispatchPolicy = "round_robin"
)

// DispatchOrder names the order in which a run's requests are served; a request's priority comes before it.
type DispatchOrder string

// The orders; the empty one is OldestGroup.
const (
	OldestGroup   DispatchOrder = "oldest_group" // in a group, the game that is furthest behind
	ArrivalOrder  DispatchOrder = "arrival"
	ShortestFirst DispatchOrder = "shortest_first" // least expected work, with Ageing
)

// DispatchQueue says where requests wait.
type DispatchQueue string

// The queues; the empty one is SharedQueue.
const (
	SharedQueue DispatchQueue = "shared"     // any engine takes the next request
	EngineQueue DispatchQueue = "per_engine" // a request is assigned to an engine when it arrives
)

// Batching is for engines that batch statically: several prompts travel in one call, and the next call
// waits until the last one is answered. An engine that batches by itself, as vLLM does, needs none of it.
type Batching struct {
	MaxBatchSize int `json:"max_batch_size,omitempty"` // prompts in one call; 0: no batching
	// FlushWindow is how long an incomplete batch may wait for more requests while an engine is idle. It counts
	// from the oldest request's arrival, so that time spent waiting for a busy engine is not waited again.
	FlushWindow      rollout.Duration `json:"flush_window,omitempty"`
	BatchesPerEngine int              `json:"batches_per_engine,omitempty"` // calls at a time; 0: one

	// MemoryTokens is how many tokens, prompts and answers together, one batch has room for; Overflow is the accepted
	// probability that it needs more. 0 tokens: no such bound; 0 overflow: 0.05.
	MemoryTokens int     `json:"memory_tokens,omitempty"`
	Overflow     float64 `json:"overflow,omitempty"`
	// TokenLatency is the time per output token that a batch may take; the batch size is steered to it. 0: no such
	// bound.
	TokenLatency rollout.Duration `json:"token_latency,omitempty"`

	// Bins splits requests by expected length; a batch is of one bin. 0: one bin. Boundaries are the lengths at
	// which bins end, one fewer than there are bins; none: the bins hold equally many of the recent requests.
	Bins       int       `json:"bins,omitempty"`
	Boundaries []int     `json:"boundaries,omitempty"`
	BinBy      BinLength `json:"bin_by,omitempty"`
	BinSelect  BinSelect `json:"bin_select,omitempty"`
}

// BinLength says which length of a request decides its bin.
type BinLength string

// The lengths; the empty one is OutputLength.
const (
	OutputLength BinLength = "output"
	TotalLength  BinLength = "total" // prompt and output
)

// BinSelect says which bin the next batch is taken from.
type BinSelect string

// The selections; the empty one is OldestHead.
const (
	OldestHead   BinSelect = "oldest_head"
	LongestQueue BinSelect = "longest_queue"
	BinsInTurn   BinSelect = "round_robin"
)
