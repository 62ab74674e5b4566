package seed003

// controller is the note's feedback: it holds the time of whole batches to the deadline, by factors of its own. A long
// request makes any batch late; then the controller makes batches smaller, which makes the queue longer and nothing
// faster.
type controller struct {
	cfg       Config
	low, high int     // bracket of the sizes that are tried
	latency   float64 // of recent batches, seconds
	size      float64 // of recent batches
	tokens    float64 // of a request
	batches   int
}

const (
	newest       = 0.2 // weight of the newest batch in every mean
	firstTokens  = 500 // of a request, before any was seen
	warmup       = 3   // batches before it acts
	memoryMargin = 0.1 // share of the memory that stays free, in place of the paper's variance term
)

func newController(cfg Config) *controller {
	return &controller{cfg: cfg, low: 1, high: cfg.MaxBatch, size: float64((1 + cfg.MaxBatch) / 2), tokens: firstTokens}
}

// learn takes in a batch that is done.
func (c *controller) learn(took float64, tokens float64, n int) {
	c.tokens = newest*tokens + (1-newest)*c.tokens
	c.latency = newest*took + (1-newest)*c.latency
	c.size = newest*float64(n) + (1-newest)*c.size
	c.batches++
}

// target is the size of the next batch. Asking moves the bracket.
func (c *controller) target() int {
	fits := max(1, min(c.cfg.MaxBatch, int((1-memoryMargin)*c.cfg.Memory/c.tokens)))
	return min(fits, c.steer())
}

func (c *controller) steer() int {
	if c.batches < warmup {
		return (c.low + c.high) / 2
	}
	switch band := 2 * c.cfg.Band; {
	case c.latency > c.cfg.Deadline+band:
		c.high = min(c.high, max(1, int(c.size*0.9)))
		c.low = max(1, min(c.low, int(c.size*0.7)))
	case c.latency < c.cfg.Deadline-band:
		c.low = max(c.low, int(c.size))
		c.high = min(c.high+int(0.3*c.size), c.cfg.MaxBatch)
	default:
		margin := max(2, int(0.15*float64(c.high-c.low)))
		c.low = max(1, int(c.size)-margin)
		c.high = min(c.cfg.MaxBatch, int(c.size)+margin)
	}
	c.low, c.high = max(1, c.low), min(c.cfg.MaxBatch, c.high)
	c.low = min(c.low, c.high)
	return max(1, min(c.cfg.MaxBatch, (c.low+c.high)/2))
}
