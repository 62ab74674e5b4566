package staticbatch

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// engineModel is engines that batch statically, in virtual time.
type engineModel struct {
	s        *Scheduler
	rules    Rules
	dispatch runspec.Dispatch
	engines  int
	batch    func(size int) time.Duration // how long a batch takes

	now     time.Duration
	running []*running
	arrived []time.Duration
	latency []time.Duration
	busy    time.Duration // over engines
	merged  int           // batches
}

type running struct {
	requests []int
	ends     time.Duration
}

// play serves calls of some prompts each, given by their times, and returns when the last one was answered.
func (p *engineModel) play(at []time.Duration, prompts []int) time.Duration {
	p.s = New(p.rules, p.dispatch)
	for range p.engines {
		p.s.AddEngine(1000, []string{"m"})
	}
	for i := 0; ; {
		next, done := p.due()
		switch {
		case i < len(at) && (next == 0 || at[i] <= next):
			p.now = at[i]
			for range prompts[i] {
				p.arrived = append(p.arrived, p.now)
				p.take(p.s.Submit(p.now, Request{Number: len(p.arrived) - 1, Model: "m", Prompt: 100, Output: 10}))
			}
			i++
		case next == 0:
			return p.now
		default:
			p.now = next
			p.finish(done)
		}
	}
}

// due is when the next batch ends, or a window; 0: nothing does.
func (p *engineModel) due() (at time.Duration, done *running) {
	at, _ = p.s.NextFlush(p.now)
	for _, b := range p.running {
		if at == 0 || b.ends < at || b.ends == at && done == nil {
			at, done = b.ends, b
		}
	}
	return at, done
}

func (p *engineModel) finish(done *running) {
	if done == nil {
		p.take(p.s.Flush(p.now))
		return
	}
	p.running = slices.DeleteFunc(p.running, func(b *running) bool { return b == done })
	for _, i := range done.requests {
		p.latency = append(p.latency, p.now-p.arrived[i])
		p.take(p.s.Ended(p.now, i, 100, 10))
	}
}

func (p *engineModel) take(batches []Batch) {
	for _, b := range batches {
		takes := p.batch(len(b.Requests))
		p.running = append(p.running, &running{b.Requests, p.now + takes})
		p.busy += takes
		p.merged++
	}
}

func (p *engineModel) meanLatency() time.Duration {
	sum := time.Duration(0)
	for _, l := range p.latency {
		sum += l
	}
	return sum / time.Duration(len(p.latency))
}

// traffic is calls whose gaps are exponential, of one to eight prompts each.
func traffic(seed uint64, calls int, gap time.Duration) (at []time.Duration, prompts []int) {
	rng := rand.New(rand.NewPCG(seed, 9))
	now := time.Duration(0)
	for range calls {
		now += time.Duration(rng.ExpFloat64() * float64(gap))
		at = append(at, now)
		prompts = append(prompts, []int{1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 4, 5, 6, 7, 8}[rng.IntN(20)])
	}
	return at, prompts
}

// flat and perPrompt are what a batch may take: as long as one prompt, or as long as all of them.
func flat(each time.Duration) func(int) time.Duration { return func(int) time.Duration { return each } }

func perPrompt(each time.Duration) func(int) time.Duration {
	return func(n int) time.Duration { return time.Duration(n) * each }
}

// TestFlushWindow: the window waits for company only while an engine is idle. Engines that have too much to do fill
// their batches without it, and it costs nothing; engines that have little to do answer later by about the window.
func TestFlushWindow(t *testing.T) {
	t.Parallel()
	play := func(window, gap time.Duration) (total, mean time.Duration, batches int) {
		p := &engineModel{engines: 2, batch: flat(100 * time.Second)}
		p.rules = Rules{MaxBatchSize: 8, FlushWindow: rollout.Duration(window)}
		total = p.play(traffic(1, 400, gap))
		return total, p.meanLatency(), p.merged
	}
	t.Run("saturated", func(t *testing.T) {
		t.Parallel()
		total, mean, batches := play(0, 10*time.Second)
		for _, window := range []time.Duration{500 * time.Millisecond, 5 * time.Second} {
			t2, m2, b2 := play(window, 10*time.Second)
			if within(t2, total, 0.02) && within(m2, mean, 0.03) && b2 <= batches {
				continue
			}
			t.Errorf("window %v: %v in all, %v on average, %d batches; without: %v, %v, %d", window, t2, m2, b2,
				total, mean, batches)
		}
	})
	t.Run("light", func(t *testing.T) {
		t.Parallel()
		_, mean, _ := play(10*time.Millisecond, time.Hour)
		if _, m, _ := play(5*time.Second, time.Hour); m < mean+4*time.Second || m > mean+5*time.Second {
			t.Errorf("a window of 5 s makes %v of %v", m, mean)
		}
		// With none at all, the first prompt of a call goes alone and the others wait until it is answered.
		if _, m, _ := play(0, time.Hour); m < mean+20*time.Second {
			t.Errorf("no window makes %v of %v", m, mean)
		}
	})
}

// TestSharedQueue: engines that share one queue are never worse off than with a queue each, and both stay busy.
// Where a batch takes as long as its prompts one after the other, that holds for batches of one: larger ones only
// take work from the other engine.
func TestSharedQueue(t *testing.T) {
	t.Parallel()
	models := map[string]func(int) time.Duration{"flat": flat(13 * time.Second), "per prompt": perPrompt(4 * time.Second)}
	size := map[string]int{"flat": 4, "per prompt": 1}
	for _, gap := range []time.Duration{7 * time.Second, 10 * time.Second, 20 * time.Second} {
		for name, batch := range models {
			t.Run(fmt.Sprintf("%s/%v", name, gap), func(t *testing.T) {
				t.Parallel()
				mean := map[runspec.DispatchQueue]time.Duration{}
				for _, queue := range []runspec.DispatchQueue{runspec.SharedQueue, runspec.EngineQueue} {
					for seed := range uint64(5) {
						p := &engineModel{engines: 2, batch: batch}
						p.rules = Rules{MaxBatchSize: size[name]}
						p.dispatch = runspec.Dispatch{Policy: runspec.RoundRobin, Queue: queue}
						p.play(traffic(seed, 300, gap))
						mean[queue] += p.meanLatency() / 5
					}
				}
				if float64(mean[runspec.SharedQueue]) > 1.03*float64(mean[runspec.EngineQueue]) {
					t.Errorf("shared %v, a queue each %v", mean[runspec.SharedQueue], mean[runspec.EngineQueue])
				}
			})
		}
	}
	t.Run("a burst", func(t *testing.T) {
		t.Parallel()
		p := &engineModel{engines: 2, batch: flat(8 * time.Second)}
		p.rules = Rules{MaxBatchSize: 10}
		total := p.play([]time.Duration{0}, []int{100})
		if total != 48*time.Second { // 1 and 1 at once, then 98 in 10 batches on two engines
			t.Errorf("100 prompts took %v", total)
		}
		if share := p.busy.Seconds() / (2 * total.Seconds()); share < 0.99 {
			t.Errorf("engines were busy for %.2f of the time", share)
		}
	})
}

func within(a, b time.Duration, share float64) bool {
	return float64(max(a, b)-min(a, b)) <= share*float64(b)
}

// TestEngineModelIsDeterministic: the same traffic gives the same latencies, to the last.
func TestEngineModelIsDeterministic(t *testing.T) {
	t.Parallel()
	play := func() []time.Duration {
		p := &engineModel{engines: 3, batch: perPrompt(time.Second)}
		p.rules = Rules{MaxBatchSize: 5, FlushWindow: rollout.Duration(time.Second), Bins: 3}
		p.dispatch = runspec.Dispatch{Order: runspec.ShortestFirst, Ageing: 3}
		p.play(traffic(3, 200, 2*time.Second))
		return p.latency
	}
	if a, b := play(), play(); slices.CompareFunc(a, b, cmp.Compare[time.Duration]) != 0 {
		t.Error("two plays of the same traffic differ")
	}
}
