package requestsim

import (
	"fmt"
	"math"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// request is one completion.
type request struct {
	game      *game // nil: another run's
	age       float64
	no        int
	prompt    float64
	cached    float64
	output    float64
	submitted float64
	sent      float64
	engine    *engine
	place     int // in a share's heap
	until     float64
	work      float64 // that it has to have in the share that it is in
	over      bool
	done      float64 // output tokens that it had when it was preempted
	again     bool    // it was preempted
}

// engine works on requests; those in work share it.
type engine struct {
	sim     *sim
	id      rollout.EngineID
	up      bool
	limit   int
	slow    float64 // how many times as long everything takes
	paced   bool    // the service knows, and gives it half
	stalled int     // loads that keep it from generating

	held    map[*request]bool // given to it
	others  int               // of these, other runs'
	waiting []*request        // inside the engine
	tokens  float64           // of those that run
	prompts share             // with Split: prompts being worked on
	outputs share

	seen  engineSums
	loads map[int]*enginestate.LoadBin // what it did at which load, since the batch before
}

// engineSums grow with time and with what is done.
type engineSums struct {
	at                                       float64
	upSec, busySec, runningSec, waitingSec   float64
	limitSec, kvSec                          float64
	input, cached, output, answers, answered float64 // answered: seconds of the answers
	preempted                                float64
}

func (s *sim) newEngine() *engine {
	e := &engine{sim: s, id: rollout.EngineID(fmt.Sprintf("engine-%02d", len(s.engines))), slow: 1,
		limit: s.w.Slots, held: map[*request]bool{}, loads: map[int]*enginestate.LoadBin{}}
	e.prompts = share{engine: e, slowdown: func(n int) float64 { return max(1, float64(n)) }, done: e.prompted}
	e.outputs = share{engine: e, slowdown: func(n int) float64 { return s.w.Engine.slowdown(n) }, done: e.finished}
	s.engines = append(s.engines, e)
	return e
}

// room is how many requests of the run it may be given.
func (e *engine) room() int {
	if !e.up {
		return 0
	}
	limit := e.limit
	if e.paced {
		limit = max(1, limit/2)
	}
	room := limit - len(e.held)
	if own := e.sim.w.OwnLimit; own > 0 {
		room = min(room, own-(len(e.held)-e.others))
	}
	return room
}

// roomForOthers is how many requests of other runs it may be given.
func (e *engine) roomForOthers() int {
	if !e.up {
		return 0
	}
	return e.limit - len(e.held)
}

func (e *engine) take(r *request) {
	e.account()
	r.engine, r.sent = e, e.sim.now
	e.held[r] = true
	if r.game == nil {
		e.others++
	}
	e.waiting = append(e.waiting, r)
	e.admit()
}

// admit lets requests that wait run, in their order, as far as they fit.
func (e *engine) admit() {
	model := &e.sim.w.Engine
	for len(e.waiting) > 0 {
		r := e.waiting[0]
		running := e.prompts.len() + e.outputs.len()
		size := r.size(model)
		if model.Sequences > 0 && running >= model.Sequences ||
			model.KV > 0 && running > 0 && e.inCache()+size > model.room() {
			return
		}
		e.waiting = e.waiting[1:]
		e.tokens += size
		promptWork := (r.prompt - r.cached + r.done) * model.PromptSec
		if model.Split {
			e.prompts.add(r, promptWork)
			continue
		}
		e.outputs.add(r, promptWork+(r.output-r.done)*model.OutputSec)
	}
}

// size is what a request must find room for in the cache before it runs.
func (r *request) size(model *Engine) float64 {
	if model.Preempts {
		return r.prompt + r.done
	}
	return r.prompt + r.output
}

// inCache is the tokens in the cache: with Preempts, those generated so far.
func (e *engine) inCache() float64 {
	if e.sim.w.Engine.Preempts {
		return e.outputs.tokens()
	}
	return e.tokens
}

// preempt takes the youngest request out of the cache. It goes on first, and has to be read in again.
func (e *engine) preempt() {
	e.account()
	var r *request
	for _, one := range e.outputs.requests {
		if r == nil || one.no > r.no {
			r = one
		}
	}
	done := r.done + (r.output-r.done)*(1-(r.until-e.outputs.work)/r.work)
	e.outputs.remove(r)
	e.tokens -= r.size(&e.sim.w.Engine)
	r.done, r.again = math.Floor(done), true
	e.seen.preempted++
	e.waiting = slices.Insert(e.waiting, 0, r)
	e.admit()
}

func (e *engine) prompted(r *request) {
	e.account()
	e.outputs.add(r, r.output*e.sim.w.Engine.OutputSec)
}

func (e *engine) finished(r *request) {
	e.account()
	s := &e.seen
	s.answers, s.answered = s.answers+1, s.answered+e.sim.now-r.sent
	e.bin().Requests++
	e.forget(r)
	e.tokens -= r.size(&e.sim.w.Engine)
	e.admit()
	e.sim.answered(r)
}

func (e *engine) forget(r *request) {
	delete(e.held, r)
	if r.game == nil {
		e.others--
	}
}

// cancel lets go of a request, wherever it is.
func (e *engine) cancel(r *request) {
	e.account()
	if i := slices.Index(e.waiting, r); i >= 0 {
		e.waiting = slices.Delete(e.waiting, i, i+1)
	} else {
		e.prompts.remove(r)
		e.outputs.remove(r)
		e.tokens -= r.size(&e.sim.w.Engine)
	}
	e.forget(r)
	e.admit()
}

// paceChanged has the shares work at the pace that is right now.
func (e *engine) paceChanged() {
	e.account()
	e.prompts.plan()
	e.outputs.plan()
}

// lose drops everything that the engine has; the requests are asked for again.
func (e *engine) lose() []*request {
	e.account()
	lost := make([]*request, 0, len(e.held))
	for r := range e.held {
		lost = append(lost, r)
	}
	slices.SortFunc(lost, func(a, b *request) int { return a.no - b.no })
	e.up, e.others, e.tokens, e.waiting = false, 0, 0, nil
	e.held = map[*request]bool{}
	e.prompts.clear()
	e.outputs.clear()
	return lost
}

// account lets the sums grow up to now.
func (e *engine) account() {
	s := &e.seen
	sec := e.sim.now - s.at
	s.at = e.sim.now
	if !e.up || sec <= 0 {
		return
	}
	running := float64(e.prompts.len() + e.outputs.len())
	s.upSec += sec
	if running > 0 {
		s.busySec += sec
	}
	limit := e.limit
	if e.paced {
		limit = max(1, limit/2)
	}
	s.runningSec += sec * running
	s.waitingSec += sec * float64(len(e.waiting))
	s.limitSec += sec * float64(limit)
	if kv := e.sim.w.Engine.KV; kv > 0 {
		s.kvSec += sec * min(1, e.inCache()/kv)
	}
	input := sec * (e.prompts.pace*e.prompts.input + e.outputs.pace*e.outputs.input)
	output := sec * e.outputs.pace * e.outputs.output
	s.input, s.output = s.input+input, s.output+output
	s.cached += sec * (e.prompts.pace*e.prompts.cached + e.outputs.pace*e.outputs.cached)
	flying := running + float64(len(e.waiting))
	*e.bin() = e.bin().Add(enginestate.LoadBin{InFlight: flying, Sec: sec, InputTokens: input, OutputTokens: output})
}

// bin is where what the engine does at its present load belongs.
func (e *engine) bin() *enginestate.LoadBin {
	n := e.prompts.len() + e.outputs.len() + len(e.waiting)
	at := int(math.Round(2 * math.Log2(float64(1+n))))
	if e.loads[at] == nil {
		e.loads[at] = &enginestate.LoadBin{}
	}
	return e.loads[at]
}
