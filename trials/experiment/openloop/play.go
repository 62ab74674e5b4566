// Package openloop plays requests that come when they come against modelled engines, through the service's own
// dispatcher (package serving), and sums up how it went. What is measured, and how exactly, is in metrics.go: the same
// for every policy, so that policies can be compared.
//
// Start reading at Setting and Play.
package openloop

import (
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
	"github.com/millrace/millrace/internal/simulate/sim/serving"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
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

// run is the name under which all requests are dispatched.
const run = rollout.RunName("open-loop")

const anyModel = "model"

// Play plays a setting to its end.
func Play(s Setting) (Outcome, error) {
	if err := s.validate(); err != nil {
		return Outcome{}, err
	}
	p := &player{setting: s, agenda: virtualtime.NewAgenda(), batches: map[uint64]int{}, numbers: map[dispatch.ID]int{}}
	p.out.Served = make([]Served, len(s.Requests))
	p.fleet = serving.New(p.agenda, serving.Config{
		Scheduler: dispatch.Config{MaxQueued: len(s.Requests) + 1}, Log: p.log, Start: time.Unix(0, 0).UTC(),
	})
	p.fleet.Rules(run, s.Rules)
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
	fleet    *serving.Fleet
	engines  []enginemodel.Engine
	ids      []rollout.EngineID
	arrivals *virtualtime.Timer

	next    int // request to come
	ended   int
	batches map[uint64]int // of the dispatcher, to those of the outcome
	numbers map[dispatch.ID]int
	failed  error
	refusal error // of an engine, the first
	out     Outcome
}

// refusalKeeper keeps why an engine refused a batch, of which the dispatcher learns only that it did.
type refusalKeeper struct {
	enginemodel.Engine
	first *error
}

// Submit passes a batch on.
func (k *refusalKeeper) Submit(now time.Duration, calls []enginemodel.Call) error {
	err := k.Engine.Submit(now, calls)
	if err != nil && *k.first == nil {
		*k.first = err
	}
	return err
}

// engineID sorts like the number: among idle engines the dispatcher takes the first.
func engineID(number int) rollout.EngineID {
	return rollout.EngineID(fmt.Sprintf("engine-%06d", number))
}

func (p *player) addEngines() error {
	limit := p.setting.Limit
	if limit == 0 {
		limit = max(p.setting.Rules.Batching.MaxBatchSize, 1) * max(1, p.setting.Rules.Batching.BatchesPerEngine)
		if p.setting.Rules.Batching.MaxBatchSize == 0 {
			limit = len(p.setting.Requests)
		}
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
		e = &refusalKeeper{e, &p.refusal}
		p.engines = append(p.engines, e)
		p.ids = append(p.ids, engineID(i))
		p.fleet.AddEngine(p.ids[i], e, limit, 0, models)
	}
	return nil
}

// Happen submits the requests that come now.
func (p *player) Happen(now time.Duration, _ uint64) {
	for p.next < len(p.setting.Requests) && p.setting.Requests[p.next].At <= now {
		i := p.next
		p.next++
		r := p.setting.Requests[i]
		model := r.Model
		if model == "" {
			model = anyModel
		}
		p.fleet.Submit(serving.Request{
			Episode: rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: run, Seq: rollout.GroupSeq(i)}},
			Model:   model, Prompt: r.Prompt, Output: r.Output, ToldPrompt: r.Prompt, ToldOutput: r.Predicted,
			Class: r.Class, Client: p, Tag: uint64(i),
		})
	}
	if p.next < len(p.setting.Requests) {
		p.arrivals.Set(p.setting.Requests[p.next].At)
	}
}

// log notes which requests travel together.
func (p *player) log(_ time.Time, ev dispatch.Event, commands []dispatch.Command) {
	if submitted, ok := ev.(dispatch.Submit); ok {
		p.numbers[submitted.ID] = int(submitted.Episode.Seq)
	}
	for _, c := range commands {
		sent, ok := c.(dispatch.Send)
		if !ok {
			continue
		}
		i := p.numbers[sent.ID]
		b, known := p.batches[sent.Batch]
		if !known || sent.Batch == 0 {
			b = len(p.out.Batches)
			p.batches[sent.Batch] = b
			p.out.Batches = append(p.out.Batches, Batch{Sent: p.agenda.Now(), Engine: p.number(sent.Engine)})
		}
		p.out.Batches[b].Requests = append(p.out.Batches[b].Requests, i)
		p.out.Served[i] = Served{Sent: p.agenda.Now(), Engine: p.out.Batches[b].Engine, Batch: b}
	}
}

func (p *player) number(id rollout.EngineID) int {
	for i, known := range p.ids {
		if known == id {
			return i
		}
	}
	return -1
}

// Answered takes in the end of a request.
func (p *player) Answered(now time.Duration, tag uint64, answer serving.Answer) {
	p.ended++
	p.out.Served[tag].Ended = now
	delete(p.numbers, answer.ID)
	if answer.Rejected != "" && p.failed == nil {
		r := p.setting.Requests[tag]
		p.failed = fmt.Errorf("request %d (%d prompt and %d output tokens) was rejected at %v: %s", tag, r.Prompt, r.Output,
			now, answer.Rejected)
		if p.refusal != nil {
			p.failed = fmt.Errorf("%w: %w", p.failed, p.refusal)
		}
	}
}

func (p *player) finish() {
	for _, e := range p.engines {
		e.Advance(p.agenda.Now())
		p.out.Busy = append(p.out.Busy, e.Stats().Busy)
	}
}
