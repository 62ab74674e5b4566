// Package wholebatch is engines that take whole batches, each as long as its longest request, with a time given by a
// table or a formula.
package wholebatch

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
)

// WholeBatchConfig says how an engine that takes whole batches works. Time is required.
type WholeBatchConfig struct {
	Time BatchTime
	// OutputOnly counts a request's length as its answer's; otherwise prompt and answer are its length.
	OutputOnly bool
	MaxBatch   int // requests in one batch; 0: any number

	// Workers is how many batches are worked on at a time, each by a copy of the model; 0: one. Other batches wait in
	// the order in which they came. Workers that want more than Cores have to share them: each wants CoresPerWorker
	// (0: all of them), and every further worker at work slows all of them by Contention, for caches and switching.
	Workers        int
	Cores          float64 // 0: enough for all
	CoresPerWorker float64
	Contention     float64

	// OnBatch, if set, is told of every batch that ends.
	OnBatch func(BatchDone)
}

// BatchDone is a batch that an engine has worked on.
type BatchDone struct {
	Began, Ended time.Duration
	Size         int // requests that it began with
	Longest      int // tokens
	Useful       int // tokens of all its requests
}

// Validate reports the first impossible value.
func (c WholeBatchConfig) Validate() error {
	switch {
	case c.Time == nil:
		return fmt.Errorf("whole-batch engine: no batch time: give a table or a formula")
	case c.MaxBatch < 0 || c.Workers < 0:
		return fmt.Errorf("whole-batch engine: max batch %d and workers %d: want 0 or more", c.MaxBatch, c.Workers)
	case !(c.Cores >= 0 && c.CoresPerWorker >= 0 && c.Contention >= 0):
		return fmt.Errorf("whole-batch engine: cores %g, cores per worker %g and contention %g: want 0 or more", c.Cores,
			c.CoresPerWorker, c.Contention)
	}
	return nil
}

// WholeBatch is an engine that takes a batch, works on it until its longest request is done, and then takes the next:
// every request takes as long as its batch, and shorter ones are padded.
type WholeBatch struct {
	cfg  WholeBatchConfig
	slow float64

	running []*wholeBatch
	waiting []*wholeBatch
	events  []enginemodel.Event // not reported yet
	told    []enginemodel.Event // reported last

	// Work is accounted up to changed, when the batches at work last changed, and a part of a nanosecond: a batch that
	// begins in the very moment in which another one ends begins at its exact end, so that roundings do not add up.
	changed time.Duration
	part    float64

	stats enginemodel.Stats
	// Useful and Padded are the tokens of ended batches, without and with padding to the longest.
	Useful, Padded int64
}

// wholeBatch is a batch in the engine.
type wholeBatch struct {
	calls   []enginemodel.Call
	done    BatchDone
	seconds float64
	left    float64 // nanoseconds of work, of one worker that has all it wants
}

var _ enginemodel.Engine = (*WholeBatch)(nil)

// NewWholeBatch is an engine without work.
func NewWholeBatch(cfg WholeBatchConfig) (*WholeBatch, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Workers = max(1, cfg.Workers)
	return &WholeBatch{cfg: cfg, slow: 1}, nil
}

// Submit gives the engine one batch. It begins when a worker is free.
func (w *WholeBatch) Submit(now time.Duration, calls []enginemodel.Call) error {
	if len(calls) == 0 {
		return nil
	}
	if most := w.cfg.MaxBatch; most > 0 && len(calls) > most {
		return fmt.Errorf("a batch of %d requests is larger than the engine takes, which is %d", len(calls), most)
	}
	b := &wholeBatch{calls: slices.Clone(calls), done: BatchDone{Size: len(calls)}}
	for _, c := range calls {
		length := w.length(c)
		b.done.Longest = max(b.done.Longest, length)
		b.done.Useful += length
	}
	var err error
	if b.seconds, err = w.cfg.Time.Seconds(b.done.Size, b.done.Longest); err != nil {
		return err
	}
	w.catchUp(now)
	w.waiting = append(w.waiting, b)
	w.begin(now)
	return nil
}

// length is what the longest request of a batch is found by.
func (w *WholeBatch) length(c enginemodel.Call) int {
	if w.cfg.OutputOnly {
		return c.Output
	}
	return c.Prompt + c.Output
}

// begin gives waiting batches to free workers.
func (w *WholeBatch) begin(now time.Duration) {
	for len(w.waiting) > 0 && len(w.running) < w.cfg.Workers {
		w.account(now)
		b := w.waiting[0]
		w.waiting = slices.Delete(w.waiting, 0, 1)
		b.done.Began = now
		b.left = b.seconds * w.slow * 1e9
		w.running = append(w.running, b)
	}
}

// speed is how fast each worker works, as a share of what it would with all that it wants.
func (w *WholeBatch) speed() float64 {
	n := float64(len(w.running))
	speed := 1.0
	if cores := w.cfg.Cores; cores > 0 {
		wants := w.cfg.CoresPerWorker
		if wants == 0 {
			wants = cores
		}
		speed = min(1, cores/(n*wants))
	}
	return speed / (1 + w.cfg.Contention*(n-1))
}

// account takes the work since the last change off the batches at work.
func (w *WholeBatch) account(now time.Duration) {
	if len(w.running) == 0 {
		if now != w.changed {
			w.changed, w.part = now, 0
		}
		return
	}
	elapsed := float64(now-w.changed) - w.part
	if elapsed <= 0 {
		return
	}
	speed := w.speed()
	for _, b := range w.running {
		b.left = max(0, b.left-elapsed*speed)
	}
	w.stats.Busy += now - w.changed
	w.changed, w.part = now, 0
}

// next is the batch that ends first, and when: in whole nanoseconds, and the part that is left over.
func (w *WholeBatch) next() (b *wholeBatch, at time.Duration, part float64) {
	for _, r := range w.running {
		if b == nil || r.left < b.left {
			b = r
		}
	}
	if b == nil {
		return nil, 0, 0
	}
	exact := w.part + b.left/w.speed()
	whole := math.Round(exact)
	return b, w.changed + time.Duration(whole), exact - whole
}

// catchUp works up to a time.
func (w *WholeBatch) catchUp(now time.Duration) {
	for {
		b, at, part := w.next()
		if b == nil || at > now {
			return
		}
		w.end(b, at, part)
		w.begin(at)
	}
}

// end takes a batch that is done off its worker.
func (w *WholeBatch) end(b *wholeBatch, at time.Duration, part float64) {
	worked := b.left
	for _, r := range w.running {
		r.left = max(0, r.left-worked)
	}
	w.stats.Busy += at - w.changed
	w.changed, w.part = at, part
	w.running = slices.DeleteFunc(w.running, func(r *wholeBatch) bool { return r == b })
	w.Useful += int64(b.done.Useful)
	w.Padded += int64(b.done.Size) * int64(b.done.Longest)
	for _, c := range b.calls {
		w.stats.Prompt += int64(c.Prompt)
		w.stats.Output += int64(c.Output)
		w.events = append(w.events, enginemodel.Event{At: at, ID: c.ID, Kind: enginemodel.Ended})
	}
	b.done.Ended = at
	if w.cfg.OnBatch != nil {
		w.cfg.OnBatch(b.done)
	}
}

// Abort takes a call out. Its batch takes as long as before, unless nobody waits for it any more: then it stops.
func (w *WholeBatch) Abort(now time.Duration, id uint64) bool {
	w.catchUp(now)
	for _, list := range []*[]*wholeBatch{&w.running, &w.waiting} {
		for _, b := range *list {
			i := slices.IndexFunc(b.calls, func(c enginemodel.Call) bool { return c.ID == id })
			if i < 0 {
				continue
			}
			if b.calls = slices.Delete(b.calls, i, i+1); len(b.calls) == 0 {
				w.account(now)
				*list = slices.DeleteFunc(*list, func(r *wholeBatch) bool { return r == b })
				w.begin(now)
			}
			return true
		}
	}
	return false
}

// Load takes no time: seeds and papers that think in whole batches know no adapters.
func (w *WholeBatch) Load(now time.Duration, id uint64, _ string) {
	w.catchUp(now)
	w.events = append(w.events, enginemodel.Event{At: now, ID: id, Kind: enginemodel.Loaded})
}

// SetSlow multiplies the time of batches that begin from now on.
func (w *WholeBatch) SetSlow(now time.Duration, factor float64) {
	w.catchUp(now)
	w.slow = factor
}

// Advance works up to now and reports what happened.
func (w *WholeBatch) Advance(now time.Duration) []enginemodel.Event {
	w.catchUp(now)
	w.told, w.events = w.events, w.told[:0]
	return w.told
}

// Next is when the next batch ends, or now if something is yet to be reported.
func (w *WholeBatch) Next() (time.Duration, bool) {
	if len(w.events) > 0 {
		return w.events[0].At, true
	}
	b, at, _ := w.next()
	return at, b != nil
}

// Stats is the engine's load and counters as of the last call.
func (w *WholeBatch) Stats() enginemodel.Stats {
	st := w.stats
	for _, b := range w.running {
		st.Running += len(b.calls)
		for _, c := range b.calls {
			st.KV += c.Prompt + c.Output
		}
	}
	for _, b := range w.waiting {
		st.Waiting += len(b.calls)
	}
	return st
}
