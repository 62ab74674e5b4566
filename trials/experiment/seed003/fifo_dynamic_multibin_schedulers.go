// Package seed003 is the three schedulers that seed note 003 describes, as its own program has them: a fixed batch, a
// batch sized by feedback, and the same with a queue and a controller for each bin. Its controller is not the one of
// the paper that the note names; here it can be compared with the paper's, which package staticbatch has.
//
// Start reading at Play.
package seed003

import (
	"container/heap"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/trials/experiment/openloop"
)

// Policy is one of the note's schedulers.
type Policy string

// The schedulers, by the note's own names.
const (
	StaticFIFO      Policy = "static_fifo"
	DynamicNoBins   Policy = "dynamic_no_bins"
	MultiBinDynamic Policy = "multi_bin_dynamic"
)

// Known reports whether there is such a scheduler.
func Known(p Policy) bool { return p == StaticFIFO || p == DynamicNoBins || p == MultiBinDynamic }

// Config is the note's settings. Start from Default.
type Config struct {
	Policy     Policy
	Engines    int
	FixedBatch int // of static_fifo: at most so many, and no waiting for more
	MaxBatch   int
	Deadline   float64 // seconds, which the controller holds whole batches to
	Band       float64 // seconds around the deadline; the controller acts outside of twice this
	Memory     float64 // tokens that fit beside the model
	Boundaries []int   // output lengths at which bins end
	Seconds    openloop.BatchSeconds
}

// Default is the settings of the note's program at the commit nearest to the note.
func Default(policy Policy, engines int, seconds openloop.BatchSeconds) Config {
	return Config{
		Policy: policy, Engines: engines, FixedBatch: 8, MaxBatch: 128, Deadline: 1.0, Band: 0.1,
		Memory: (12.0 - 2.0) / 5e-6, Boundaries: []int{64, 256, 1024}, Seconds: seconds,
	}
}

// Play plays the requests to their end.
func Play(requests []openloop.Request, cfg Config) (openloop.Outcome, error) {
	p := &player{cfg: cfg, requests: requests, queues: make([][]int, 1)}
	if cfg.Policy == MultiBinDynamic {
		p.queues = make([][]int, len(cfg.Boundaries)+1)
	}
	for range p.queues {
		p.controllers = append(p.controllers, newController(cfg))
	}
	switch {
	case len(requests) == 0 || cfg.Engines < 1:
		return openloop.Outcome{}, fmt.Errorf("%d requests and %d engines: want some of both", len(requests), cfg.Engines)
	case !Known(cfg.Policy):
		return openloop.Outcome{}, fmt.Errorf("policy %q: want %s, %s or %s", cfg.Policy, StaticFIFO, DynamicNoBins,
			MultiBinDynamic)
	}
	p.out.Served = make([]openloop.Served, len(requests))
	p.out.Busy = make([]time.Duration, cfg.Engines)
	p.current = make([]*work, cfg.Engines)
	p.worked = make([]float64, cfg.Engines)
	for i, r := range requests {
		// Divided once, so that times are those that a program has that divides seconds by 200.
		p.put(event{at: float64(r.At) / 1e9, request: i, engine: -1})
	}
	for len(p.events) > 0 && p.failed == nil {
		p.happen(heap.Pop(&p.events).(event))
	}
	for i := range p.out.Busy {
		p.out.Busy[i] = seconds(p.worked[i])
	}
	return p.out, p.failed
}

// player plays one setting. Times are seconds.
type player struct {
	cfg         Config
	requests    []openloop.Request
	events      events
	pushed      int
	queues      [][]int
	controllers []*controller
	turn        int // bin whose turn it is
	current     []*work
	worked      []float64
	failed      error
	out         openloop.Outcome
}

// work is a batch on an engine.
type work struct {
	requests []int
	bin      int
	began    float64
}

func (p *player) happen(ev event) {
	if ev.engine < 0 {
		bin := p.binOf(p.requests[ev.request].Predicted)
		p.queues[bin] = append(p.queues[bin], ev.request)
		for i := range p.current {
			p.serve(i, ev.at)
		}
		return
	}
	w := p.current[ev.engine]
	tokens, n := p.lengths(w.requests)
	p.controllers[w.bin].learn(ev.at-w.began, tokens, n)
	for _, i := range w.requests {
		p.out.Served[i].Ended = seconds(ev.at)
	}
	p.current[ev.engine] = nil
	p.serve(ev.engine, ev.at)
}

// binOf is the bin of a predicted output length.
func (p *player) binOf(length int) int {
	if len(p.queues) == 1 {
		return 0
	}
	for i, end := range p.cfg.Boundaries {
		if length < end {
			return i
		}
	}
	return len(p.cfg.Boundaries)
}

// serve gives an idle engine the next batch, if there is one.
func (p *player) serve(engine int, now float64) {
	if p.current[engine] != nil {
		return
	}
	bin := p.nextBin()
	if bin < 0 {
		return
	}
	size := p.cfg.FixedBatch
	if p.cfg.Policy != StaticFIFO {
		size = p.controllers[bin].target()
	}
	size = min(size, len(p.queues[bin]))
	batch := slices.Clone(p.queues[bin][:size])
	p.queues[bin] = p.queues[bin][size:]
	longest := 0
	for _, i := range batch {
		longest = max(longest, p.requests[i].Prompt+p.requests[i].Output)
	}
	took, err := p.cfg.Seconds(size, longest)
	if err != nil {
		p.failed = err
		return
	}
	for _, i := range batch {
		p.out.Served[i] = openloop.Served{Sent: seconds(now), Engine: engine, Batch: len(p.out.Batches)}
	}
	p.out.Batches = append(p.out.Batches, openloop.Batch{Sent: seconds(now), Engine: engine, Requests: batch})
	p.current[engine] = &work{batch, bin, now}
	p.worked[engine] += took
	p.put(event{at: now + took, engine: engine})
}

// nextBin is the next bin in turn that has requests, or -1.
func (p *player) nextBin() int {
	for offset := range p.queues {
		bin := (p.turn + offset) % len(p.queues)
		if len(p.queues[bin]) > 0 {
			p.turn = (bin + 1) % len(p.queues)
			return bin
		}
	}
	return -1
}

// lengths is the mean of prompts and outputs together, and how many requests there are.
func (p *player) lengths(batch []int) (mean float64, n int) {
	sum := 0
	for _, i := range batch {
		sum += p.requests[i].Prompt + p.requests[i].Output
	}
	return float64(sum) / float64(len(batch)), len(batch)
}

// seconds is a time to the nearest nanosecond.
func seconds(s float64) time.Duration {
	whole := time.Duration(s)
	return whole*time.Second + time.Duration((s-float64(whole))*1e9+0.5)
}
