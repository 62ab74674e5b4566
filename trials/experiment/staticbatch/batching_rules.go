package staticbatch

import "github.com/millrace/millrace/internal/rollout"

// Rules is for engines that batch statically: several prompts travel in one call, and the next call waits until the
// last one is answered.
type Rules struct {
	MaxBatchSize int `json:"max_batch_size,omitempty"` // prompts in one call; 0: no batching
	// FlushWindow is how long an incomplete batch may wait for more requests while an engine is idle. It counts
	// from the oldest request's arrival, so that time spent waiting for a busy engine is not waited again.
	FlushWindow      rollout.Duration `json:"flush_window,omitempty"`
	BatchesPerEngine int              `json:"batches_per_engine,omitempty"` // calls at a time; 0: one

	// MemoryTokens is how many tokens, prompts and answers together, one batch has room for, but for the probability
	// overflow. 0: no such bound.
	MemoryTokens int `json:"memory_tokens,omitempty"`
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

// PerEngine is how many calls an engine has at a time.
func (r Rules) PerEngine() int { return max(1, r.BatchesPerEngine) }

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
	OldestHead BinSelect = "oldest_head"
	BinsInTurn BinSelect = "round_robin"
)
