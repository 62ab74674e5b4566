package tokensim

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
)

// request is one completion.
type request struct {
	game           *game // nil: another run's
	no             int
	prompt, cached int
	output         int
	unread, made   int
	asked, sent    float64
	over           bool
}

// engine goes from iteration to iteration while it has something to do.
type engine struct {
	run       *Run
	id        rollout.EngineID
	up        bool
	slow      float64
	busy      bool // an iteration is under way
	stalled   float64
	waiting   []*request
	running   []*request
	sums      sums
	bins      map[int]*rollout.LoadBin
	iteration int // of its present life
}

// sums grow with what an engine does.
type sums struct {
	at, up, busy, running, waiting, kv       float64
	read, cached, made, answers, answeredSec float64
	preempted                                float64
}

func (r *Run) newEngine() *engine {
	e := &engine{run: r, id: rollout.EngineID(fmt.Sprintf("gpu-%d", len(r.engines))), up: true, slow: 1,
		bins: map[int]*rollout.LoadBin{}}
	r.engines = append(r.engines, e)
	return e
}

func (e *engine) held() int { return len(e.waiting) + len(e.running) }

func (e *engine) take(q *request) {
	e.account()
	q.sent, q.unread = e.run.now, q.prompt-q.cached
	e.waiting = append(e.waiting, q)
	e.proceed()
}

// proceed begins an iteration if none is under way.
func (e *engine) proceed() {
	if e.busy || !e.up {
		return
	}
	e.admit()
	if len(e.running) == 0 {
		return
	}
	w := &e.run.World
	budget, read, made := w.Budget, 0, 0
	reading := slices.ContainsFunc(e.running, func(q *request) bool { return q.unread > 0 })
	parts := make([]int, len(e.running)) // tokens read; -1: one is generated
	for i, q := range e.running {
		if q.unread == 0 && !(w.Blocking && reading) && budget > 0 {
			parts[i] = -1
			budget--
			made++
		}
	}
	for i, q := range e.running {
		if q.unread > 0 && budget > 0 {
			parts[i] = min(q.unread, budget)
			budget -= parts[i]
			read += parts[i]
		}
	}
	sec := e.slow * (w.Iter + w.PerRead*float64(read) + w.PerSeq*float64(made))
	e.busy = true
	e.iteration++
	mine := e.iteration
	e.run.after(sec+max(0, e.stalled-e.run.now), func() {
		if mine == e.iteration {
			e.ended(slices.Clone(e.running), parts)
		}
	})
}

// admit lets in what fits, in order.
func (e *engine) admit() {
	w := &e.run.World
	used := e.context()
	for len(e.waiting) > 0 && len(e.running) < w.MaxSeqs {
		q := e.waiting[0]
		if size := float64(q.prompt + q.made); len(e.running) > 0 && used+size > 0.98*w.KV {
			return
		}
		used += float64(q.prompt + q.made)
		e.waiting, e.running = e.waiting[1:], append(e.running, q)
	}
}

// context is the tokens in the cache; prompts have their room from the start.
func (e *engine) context() float64 {
	n := 0
	for _, q := range e.running {
		n += q.prompt + q.made
	}
	return float64(n)
}

// ended gives each request what it had of an iteration.
func (e *engine) ended(had []*request, parts []int) {
	e.account()
	e.busy = false
	for i, q := range had {
		switch {
		case q.over || !slices.Contains(e.running, q):
			continue
		case parts[i] > 0:
			q.unread -= parts[i]
			e.sums.read += float64(parts[i])
			e.bin().InputTokens += float64(parts[i])
		case parts[i] < 0:
			q.made++
			e.sums.made++
			e.bin().OutputTokens++
			if q.made >= q.output {
				e.finish(q)
			}
		}
	}
	for e.context() > e.run.KV && len(e.running) > 1 {
		last := e.running[len(e.running)-1]
		e.running = e.running[:len(e.running)-1]
		last.unread = last.prompt + last.made // it is read in again
		e.waiting = slices.Insert(e.waiting, 0, last)
		e.sums.preempted++
	}
	e.proceed()
	e.run.dispatch()
}

func (e *engine) finish(q *request) {
	e.running = slices.DeleteFunc(e.running, func(o *request) bool { return o == q })
	e.sums.answers++
	e.sums.answeredSec += e.run.now - q.sent
	e.sums.cached += float64(q.cached)
	e.bin().Requests++
	e.run.answered(q)
}

func (e *engine) drop(q *request) {
	e.account()
	is := func(o *request) bool { return o == q }
	e.running, e.waiting = slices.DeleteFunc(e.running, is), slices.DeleteFunc(e.waiting, is)
}

// lose gives back all that it had.
func (e *engine) lose() []*request {
	e.account()
	lost := slices.Concat(e.running, e.waiting)
	for _, q := range lost {
		q.made = 0
	}
	e.running, e.waiting, e.up, e.busy = nil, nil, false, false
	e.iteration++
	return lost
}

func (e *engine) account() {
	s := &e.sums
	sec := e.run.now - s.at
	s.at = e.run.now
	if !e.up || sec <= 0 {
		return
	}
	s.up += sec
	if e.busy {
		s.busy += sec
	}
	s.running += sec * float64(len(e.running))
	s.waiting += sec * float64(len(e.waiting))
	s.kv += sec * e.context() / e.run.KV
	*e.bin() = e.bin().Add(rollout.LoadBin{InFlight: float64(e.held()), Sec: sec})
}

func (e *engine) bin() *rollout.LoadBin {
	at := int(math.Round(2 * math.Log2(1+float64(e.held()))))
	if e.bins[at] == nil {
		e.bins[at] = &rollout.LoadBin{}
	}
	return e.bins[at]
}

func byNumber(a, b *request) int { return cmp.Compare(a.no, b.no) }
