// Package openloop plays requests that come when they come against modelled engines, through the service's own
// dispatcher (dispatch_by_service_scheduler.go) or in static batches (send_static_batches.go), and sums up how it
// went. What is measured, and how exactly, is in outcome_metrics_and_offered_load.go: the same for every policy, so
// that policies can be compared.
//
// Start reading at Setting and Play.
package openloop

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"

	"github.com/millrace/millrace/trials/experiment/staticbatch"
)

// Request is one arrival, and what the dispatcher is told of it.
type Request struct {
	At             time.Duration
	Prompt, Output int    // tokens
	Predicted      int    // output tokens that the dispatcher is told to expect; 0: it is told nothing of the output
	Model          string // for engines that serve only some of the requests; empty: any engine
	Class          uint64 // only requests of one class share a batch
}

// Setting is requests, engines, and how the one get to the others.
type Setting struct {
	Requests []Request // in order of arrival
	Engines  int
	// Engine makes the engine of a number.
	Engine func(number int) (enginemodel.Engine, error)
	// Models is what an engine serves; nil: every engine serves the requests that name no model.
	Models func(number int) []string
	Limit  int // requests in flight per engine; 0: as many as a batch may have, or all
	Rules  runspec.Dispatch
	// Batching has requests leave in batches, by staticbatch and not by the service's dispatcher; its zero value does not.
	Batching staticbatch.Rules
}

// Outcome is what became of every request and every engine.
type Outcome struct {
	Served  []Served // by request
	Batches []Batch  // in the order in which they were sent; single requests are batches of one
	Busy    []time.Duration
}

// Served is one request's way.
type Served struct {
	Sent, Ended time.Duration
	Engine      int
	Batch       int // in Outcome.Batches
}

// Batch is requests that were sent in one call.
type Batch struct {
	Sent     time.Duration
	Engine   int
	Requests []int // by number
}

const anyModel = "model"

// Play plays a setting to its end.
func Play(s Setting) (Outcome, error) {
	if err := s.validate(); err != nil {
		return Outcome{}, err
	}
	p := &player{setting: s, agenda: virtualtime.NewAgenda()}
	p.out.Served = make([]Served, len(s.Requests))
	if s.Batching.MaxBatchSize > 0 {
		p.to = newBatcher(p)
	} else {
		p.to = newDispatcher(p)
	}
	if err := p.addEngines(); err != nil {
		return Outcome{}, err
	}
	// One arrival at a time is on the agenda. Those of the same moment come before whatever else happens then.
	p.arrivals = p.agenda.Timer(arrivalClass, p, 0)
	p.arrivals.Set(s.Requests[0].At)
	for p.ended < len(s.Requests) && p.failed == nil {
		if !p.agenda.Step() {
			return p.out, fmt.Errorf("%d of %d requests never ended: no engine takes them", len(s.Requests)-p.ended,
				len(s.Requests))
		}
	}
	p.finish()
	return p.out, p.failed
}

const arrivalClass virtualtime.Class = 0

func (s Setting) validate() error {
	switch {
	case len(s.Requests) == 0:
		return errors.New("no requests")
	case s.Engines < 1:
		return fmt.Errorf("%d engines: want at least one", s.Engines)
	}
	for i, r := range s.Requests {
		switch {
		case r.Prompt < 0 || r.Output < 0:
			return fmt.Errorf("request %d has %d prompt and %d output tokens: want none negative", i, r.Prompt, r.Output)
		case i > 0 && r.At < s.Requests[i-1].At:
			return fmt.Errorf("request %d comes at %v, before the one in front of it", i, r.At)
		}
	}
	return nil
}

// player plays one setting.
type player struct {
	setting  Setting
	agenda   *virtualtime.Agenda
	to       taker
	engines  []enginemodel.Engine
	arrivals *virtualtime.Timer

	next   int // request to come
	ended  int
	failed error
	out    Outcome
}

// taker takes requests and brings them to engines: the service's dispatcher, or one that sends them in batches.
type taker interface {
	// addEngine adds the engine of the next number.
	addEngine(e enginemodel.Engine, limit int, models []string)
	submit(now time.Duration, number int, r *Request)
}

func (p *player) addEngines() error {
	limit := p.setting.Limit
	if limit == 0 {
		limit = p.setting.Batching.MaxBatchSize * p.setting.Batching.PerEngine()
	}
	for i := range p.setting.Engines {
		e, err := p.setting.Engine(i)
		if err != nil {
			return fmt.Errorf("engine %d: %w", i, err)
		}
		models := []string{anyModel}
		if p.setting.Models != nil {
			models = p.setting.Models(i)
		}
		p.engines = append(p.engines, e)
		p.to.addEngine(e, cmp.Or(limit, len(p.setting.Requests)), models)
	}
	return nil
}

// Happen submits the requests that come now.
func (p *player) Happen(now time.Duration, _ uint64) {
	for p.next < len(p.setting.Requests) && p.setting.Requests[p.next].At <= now {
		i := p.next
		p.next++
		r := p.setting.Requests[i]
		r.Model = cmp.Or(r.Model, anyModel)
		p.to.submit(now, i, &r)
	}
	if p.next < len(p.setting.Requests) {
		p.arrivals.Set(p.setting.Requests[p.next].At)
	}
}

// sent notes requests that travel together.
func (p *player) sent(engine int, requests ...int) {
	now := p.agenda.Now()
	for _, i := range requests {
		p.out.Served[i] = Served{Sent: now, Engine: engine, Batch: len(p.out.Batches)}
	}
	p.out.Batches = append(p.out.Batches, Batch{Sent: now, Engine: engine, Requests: requests})
}

func (p *player) answered(now time.Duration, number int) {
	p.ended++
	p.out.Served[number].Ended = now
}

func (p *player) fail(err error) {
	if p.failed == nil {
		p.failed = err
	}
}

func (p *player) finish() {
	for _, e := range p.engines {
		e.Advance(p.agenda.Now())
		p.out.Busy = append(p.out.Busy, e.Stats().Busy)
	}
}
