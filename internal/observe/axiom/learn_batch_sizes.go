package axiom

// batchSizes is how much is read and sent at once: as much as the bounds allow, of events as large as the last ones
// were, and less after Axiom, or a proxy before it, found a request too large.
type batchSizes struct {
	maxCount, maxBytes int
	bytes              int
	mean               int // bytes of an event
	clean              int // batches since one was too large
	turn               int // which scope is first
}

const (
	minBytes   = 16 << 10
	cleanRuns  = 20 // batches that pass before more is tried
	minEvents  = 16
	typicalRow = 500
)

func newBatchSizes(cfg Config) batchSizes {
	return batchSizes{maxCount: cfg.BatchCount, maxBytes: cfg.BatchBytes, bytes: cfg.BatchBytes, mean: typicalRow}
}

// events is how many events to read.
func (b *batchSizes) events() int {
	return max(min(minEvents, b.maxCount), min(b.maxCount, b.bytes/b.mean+1))
}

func (b *batchSizes) measured(events, bytes int) {
	if events > 0 {
		b.mean = max(1, bytes/events)
	}
}

func (b *batchSizes) learn(d *batchDelivery) {
	if d.tooLarge > 0 {
		b.bytes, b.clean = max(min(minBytes, b.maxBytes), d.tooLarge/2), 0
		return
	}
	if b.clean++; b.clean >= cleanRuns {
		b.bytes, b.clean = min(b.maxBytes, 2*b.bytes), 0
	}
}
