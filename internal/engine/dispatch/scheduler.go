package dispatch

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// Scheduler holds requests and decides where they go. It is not safe for concurrent use: its driver owns it.
type Scheduler struct {
	cfg Config
	now time.Time
	out []Command

	held      map[ID]*entry
	arrivals  uint64
	queued    int
	deadlines deadlineQueue
	runs      []*run    // by name
	engines   []*engine // by id
	games     boundedMap[rollout.EpisodeRef, home]
	groups    boundedMap[rollout.GroupRef, home]
	answers   boundedMap[rollout.EpisodeRef, int] // good ones so far
	adapters  adapters
	rounds    uint64 // of dispatch
	looks     uint64 // for engines that have room

	level int64 // service of the run served last, before it was: where a run that had nothing queued starts
	// revision changes whenever the answer to "which engines serve this model" may have changed.
	revision uint64
	homedAt  uint64    // revision in which requests were last moved between the engines' queues
	woken    time.Time // the Wake in force
	began    time.Time // of the first event

	price price
	// owedBehind is the work of others, in weighted tokens, until a request may go behind them again.
	owedBehind int64

	count counters
}

// New makes a scheduler without engines.
func New(cfg Config) *Scheduler {
	cfg = cfg.withDefaults()
	return &Scheduler{
		cfg:      cfg,
		held:     map[ID]*entry{},
		games:    newBoundedMap[rollout.EpisodeRef, home](cfg.MaxSessions),
		groups:   newBoundedMap[rollout.GroupRef, home](cfg.MaxSessions),
		answers:  newBoundedMap[rollout.EpisodeRef, int](cfg.MaxSessions),
		adapters: adapters{lastUse: map[string]time.Time{}},
		revision: 1,
		price:    firstPrice,
		count:    counters{rejected: map[rollout.Code]int64{}},
	}
}

// Handle applies one event at time now and returns what must be done about it, in this order.
// A time before an earlier one counts as that one. The slice is valid until the next call.
func (s *Scheduler) Handle(now time.Time, ev Event) []Command {
	s.out = s.out[:0]
	if now.After(s.now) {
		s.now = now
	}
	if s.began.IsZero() {
		s.began = s.now
	}
	s.apply(ev)
	s.pass()
	s.dispatch()
	s.wake()
	return s.out
}

func (s *Scheduler) apply(ev Event) {
	switch ev := ev.(type) {
	case Submit:
		s.submit(&ev.Request)
	case Cancel:
		s.cancel(ev.ID)
	case TryEnded:
		s.tryEnded(&ev)
	case EngineUp:
		s.engineUp(&ev)
	case EngineDrain:
		s.engineDrain(ev.ID)
	case EngineDown:
		s.engineDown(ev.ID)
	case EngineProbed:
		s.engineProbed(&ev)
	case EngineSampled:
		if e := s.find(ev.ID); e != nil {
			s.heard(e, ev.Load.LifeAt)
			e.sampled(s.now, &ev.Load)
		}
	case RunRules:
		s.follow(s.runNamed(ev.Run), ev.Rules)
	case RunOver:
		r := s.runNamed(ev.Run)
		r.over = true
		s.forgetIfOver(r)
	case Tick:
	}
}

func (s *Scheduler) do(c Command) { s.out = append(s.out, c) }

func (s *Scheduler) submit(q *Request) {
	if _, twice := s.held[q.ID]; twice {
		panic(fmt.Sprintf("dispatch: request %d submitted twice", q.ID))
	}
	s.count.submitted++
	r := s.runNamed(q.Episode.Run)
	if s.queued >= s.cfg.MaxQueued && !s.evictFor(r) {
		s.count.rejected[rollout.CodeQueueFull]++
		s.do(Reject{q.ID, rollout.CodeQueueFull})
		s.forgetIfOver(r)
		return
	}
	e := &entry{Request: *q, run: r, arrival: s.arrivals, since: s.now}
	s.arrivals++
	s.held[q.ID] = e
	e.run.held++
	e.run.over = false
	if !r.rules.Behind { // nor does its adapter move others'
		s.useAdapter(e.Model)
	}
	s.enqueue(e)
}

func (s *Scheduler) cancel(id ID) {
	if q := s.held[id]; q != nil {
		if q.engine != nil {
			s.charge(q)
		}
		s.withdraw(q)
		s.reject(q, rollout.CodeCancelled)
	}
}

// withdraw takes a request out of the queue, or off its engine.
func (s *Scheduler) withdraw(q *entry) {
	if q.engine == nil {
		s.dequeue(q)
		return
	}
	s.do(Abandon{q.ID, q.engine.id, q.tries})
	s.recall(q)
}

// reject ends a request that is neither queued nor in flight any more.
func (s *Scheduler) reject(e *entry, reason rollout.Code) {
	s.count.rejected[reason]++
	s.do(Reject{e.ID, reason})
	s.drop(e)
}

// drop forgets a request that is neither queued nor in flight any more.
func (s *Scheduler) drop(e *entry) {
	delete(s.held, e.ID)
	e.run.held--
	s.forgetIfOver(e.run)
}

// send takes a request out of its lane to an engine.
func (s *Scheduler) send(p pick) {
	if head := p.lane.queue[0]; head != p.first {
		head.passed++
	}
	q, to := p.first, p.to
	s.dequeue(q)
	q.engine, q.sentAt = to, s.now
	q.tries++
	if q.tries > 1 {
		s.count.redispatched++
	}
	q.cost = q.run.cost(&q.Request)
	if !q.run.rules.Behind {
		s.level = max(s.level, q.run.service-q.run.places.cost) // what is in flight may yet be taken back
	}
	s.account(q, to)
	q.run.service += q.cost
	q.run.holds(q, s.began)
	q.run.last = to.id
	to.load += q.cost
	to.add(q)
	to.perRun[q.run]++
	if to.askedAt.IsZero() {
		to.askedAt = s.now
	}
	if to.onTrial(to.standingOf(q.run)) {
		to.standing(q.run).trial = q
	}
	s.setHome(q, to)
	s.do(Send{ID: q.ID, Engine: to.id, Try: q.tries})
}

// recall takes a request in flight off its engine and takes back what the run was charged.
func (s *Scheduler) recall(q *entry) {
	e := q.engine
	e.remove(q)
	if !q.run.rules.Behind {
		e.othersAt = s.now
	}
	e.load -= q.cost
	if e.perRun[q.run]--; e.perRun[q.run] == 0 {
		delete(e.perRun, q.run)
	}
	q.run.service -= q.cost
	q.run.lets(q, s.began)
	q.engine = nil
	if st := e.standingOf(q.run); st != nil && st.trial == q {
		st.trial = nil
	}
	if e.draining && len(e.inFlight) == 0 {
		s.forget(e)
	}
}
