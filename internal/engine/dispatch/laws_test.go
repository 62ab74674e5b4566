package dispatch

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// FuzzLaws drives two schedulers with the same random events and checks, after every one, what must always hold.
func FuzzLaws(f *testing.F) {
	for seed := range uint64(40) {
		f.Add(seed, uint16(400))
	}
	f.Fuzz(func(t *testing.T, seed uint64, events uint16) {
		w := newWorld(t, seed)
		for range min(events, 2000) {
			w.handle(w.randomEvent())
		}
		w.finish()
	})
}

var models = []string{"m-v1", "m-v2", "m-v3"}

// world is an outside observer of a scheduler: it believes only events and commands.
type world struct {
	t        *testing.T
	rng      *rand.Rand
	now      time.Time
	s, twin  *Scheduler
	nextID   ID
	requests map[ID]*observed // held
	engines  map[rollout.EngineID]*EngineUp
	rules    map[rollout.RunName]runspec.Dispatch
	probing  map[rollout.EngineID]bool

	late *observed // answered by an abandoned try while in flight elsewhere

	submitted, completed, rejected int64
}

type observed struct {
	Request
	engine rollout.EngineID // "" while queued
	try    int
}

func newWorld(t *testing.T, seed uint64) *world {
	cfg := Config{MaxQueued: 40, MaxTries: 3, SuspectAfter: 2, NoEngineTTL: 20 * time.Second, MaxSessions: 8}
	return &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1_800_000_000, 0),
		s: New(cfg), twin: New(cfg),
		requests: map[ID]*observed{}, engines: map[rollout.EngineID]*EngineUp{},
		rules: map[rollout.RunName]runspec.Dispatch{}, probing: map[rollout.EngineID]bool{},
	}
}

// handle applies an event to both schedulers, follows the commands and checks the laws.
func (w *world) handle(ev Event) {
	w.t.Helper()
	w.before(ev)
	got := append([]Command(nil), w.s.Handle(w.now, ev)...)
	if twin := w.twin.Handle(w.now, ev); !reflect.DeepEqual(got, append([]Command(nil), twin...)) {
		w.t.Fatalf("%#v: same events, other commands:\n%#v\n%#v", ev, got, twin)
	}
	for _, c := range got {
		w.follow(ev, c)
	}
	if w.late != nil {
		w.t.Fatalf("%#v: request %d was answered, but goes on at %s", ev, w.late.ID, w.late.engine)
	}
	st := w.s.Stats()
	held := st.Queued + st.InFlight
	if st.Submitted != w.submitted || st.Completed != w.completed || total(st.Rejected) != w.rejected ||
		held != len(w.requests) ||
		st.Submitted != st.Completed+total(st.Rejected)+int64(held) {
		w.t.Fatalf("%#v: books do not balance: %+v, observed %d = %d + %d + %d", ev, st, w.submitted, w.completed,
			w.rejected, len(w.requests))
	}
	queued, inFlight := 0, 0
	for _, u := range w.s.ModelUses() {
		queued += u.Queued
		for _, n := range u.InFlight {
			inFlight += n
		}
	}
	if queued != st.Queued || inFlight != st.InFlight {
		w.t.Fatalf("%#v: models are used by %d + %d requests of %d + %d", ev, queued, inFlight, st.Queued, st.InFlight)
	}
	for _, r := range w.s.runs {
		if p, ok := w.s.next(r); ok {
			w.t.Fatalf("%#v: request %d waits although %s has room for it", ev, p.lane.queue[0].ID, p.to.id)
		}
	}
}

// before notes what an event means to the observer.
func (w *world) before(ev Event) {
	switch ev := ev.(type) {
	case Submit:
		w.submitted++
		w.requests[ev.ID] = &observed{Request: ev.Request}
	case TryEnded:
		w.ends(ev)
	case EngineUp:
		w.engines[ev.ID] = &ev
	case EngineDrain:
		delete(w.engines, ev.ID)
	case EngineDown:
		delete(w.engines, ev.ID)
		delete(w.probing, ev.ID)
	case EngineProbed:
		delete(w.probing, ev.ID)
	case RunRules:
		w.rules[ev.Run] = ev.Rules
	}
}

func (w *world) ends(ev TryEnded) {
	q := w.requests[ev.ID]
	if q == nil {
		return
	}
	current := q.engine != "" && q.try == ev.Try
	answer := ev.Outcome == Served
	switch {
	case answer && (current || ev.Try >= 1 && ev.Try <= q.try):
		w.completed++
		delete(w.requests, ev.ID)
		if q.engine != "" && !current {
			w.late = q // to be abandoned where it is now
		}
	case current:
		q.engine = ""
	}
}

func (w *world) follow(ev Event, c Command) {
	w.t.Helper()
	switch c := c.(type) {
	case Send:
		w.sent(ev, c)
	case Abandon:
		q := w.requests[c.ID]
		if w.late != nil && w.late.ID == c.ID {
			q, w.late = w.late, nil
		}
		if q == nil || q.engine != c.Engine || q.try != c.Try {
			w.t.Fatalf("%#v: %#v, but that try is not in flight there: %+v", ev, c, q)
		}
		q.engine = ""
	case Reject:
		q := w.requests[c.ID]
		if q == nil || q.engine != "" {
			w.t.Fatalf("%#v: %#v, but it is in flight or gone: %+v", ev, c, q)
		}
		w.rejected++
		delete(w.requests, c.ID)
	case Probe:
		w.probing[c.Engine] = true
	case Wake:
		if !c.At.After(w.now) {
			w.t.Fatalf("%#v: wake at %v, now is %v", ev, c.At, w.now)
		}
	}
}

// sent checks that the request was waiting, that it is on no other engine, and that every limit holds.
func (w *world) sent(ev Event, c Send) {
	w.t.Helper()
	q := w.requests[c.ID]
	if q == nil || q.engine != "" || c.Try != q.try+1 {
		w.t.Fatalf("%#v: %#v, but its state is %+v", ev, c, q)
	}
	e := w.engines[c.Engine]
	if e == nil {
		w.t.Fatalf("%#v: %#v to an engine that takes nothing", ev, c)
	}
	listed := false
	for _, m := range slices.Concat(e.Models, e.Adapters) {
		listed = listed || m == q.Model
	}
	if !listed {
		w.t.Fatalf("%#v: %#v of %s to an engine that has %v", ev, c, q.Model, e.Models)
	}
	q.engine, q.try = c.Engine, c.Try
	inFlight, ofRun := 0, 0
	for _, o := range w.requests {
		if o.engine == c.Engine {
			inFlight++
			if o.Episode.Run == q.Episode.Run {
				ofRun++
			}
		}
	}
	if most := w.rules[q.Episode.Run].MaxInFlightPerEngine; inFlight > e.Limit || most > 0 && ofRun > most {
		w.t.Fatalf("%#v: %d in flight on %s (limit %d), %d of run %s (limit %d)", ev, inFlight, c.Engine, e.Limit, ofRun,
			q.Episode.Run, most)
	}
}

func (w *world) randomEvent() Event {
	w.now = w.now.Add(time.Duration(w.rng.IntN(400)) * time.Millisecond)
	engine := rollout.EngineID(fmt.Sprintf("e%d", w.rng.IntN(4)))
	switch n := w.rng.IntN(100); {
	case n < 40:
		return w.submit()
	case n < 75:
		return w.endTry()
	case n < 80:
		return Cancel{w.anyID()}
	case n < 88:
		have := models[:1+w.rng.IntN(len(models))]
		return EngineUp{ID: engine, Limit: w.rng.IntN(5), Models: have[:1], Adapters: have[1:], Slots: w.rng.IntN(3)}
	case n < 90:
		return EngineDrain{engine}
	case n < 92:
		return EngineDown{engine}
	case n < 94:
		return RunRules{w.run(), w.randomRules()}
	case n < 95:
		return EngineSampled{engine, Load{At: w.now, Running: float64(w.rng.IntN(5)), Waiting: float64(w.rng.IntN(5)),
			KVUsage: w.rng.Float64()}}
	case n < 98:
		return EngineProbed{engine, w.rng.IntN(2) == 0}
	case n < 99:
		return w.runOver()
	}
	return Tick{}
}

func pickOne[T any](w *world, of ...T) T { return of[w.rng.IntN(len(of))] }

func (w *world) randomRules() runspec.Dispatch {
	return runspec.Dispatch{
		Policy:               pickOne(w, runspec.LeastTokens, runspec.RoundRobin),
		MaxInFlightPerEngine: w.rng.IntN(4),
		AffinitySlack:        w.rng.IntN(4) - 1, GroupPerEngine: w.rng.IntN(3), AdapterSlots: w.rng.IntN(3),
		Order:  pickOne(w, "", runspec.OldestGroup, runspec.ArrivalOrder, runspec.ShortestFirst),
		Ageing: float64(w.rng.IntN(100)),
		Queue:  pickOne(w, "", runspec.SharedQueue, runspec.EngineQueue),
	}
}

func (w *world) run() rollout.RunName { return rollout.RunName(fmt.Sprintf("r%d", w.rng.IntN(3))) }

// runOver ends a run that has nothing held: its rules go with it.
func (w *world) runOver() Event {
	run := w.run()
	for _, q := range w.requests {
		if q.Episode.Run == run {
			return Tick{}
		}
	}
	delete(w.rules, run)
	return RunOver{run}
}

func (w *world) submit() Event {
	w.nextID++
	q := Request{
		ID: w.nextID, Model: models[w.rng.IntN(len(models))],
		PromptTokens: w.rng.IntN(1000), OutputTokens: w.rng.IntN(100),
		Episode: rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: w.run(), Seq: rollout.GroupSeq(w.rng.IntN(5))},
			Sample: w.rng.IntN(3)},
	}
	if w.rng.IntN(3) == 0 {
		q.Deadline = w.now.Add(time.Duration(w.rng.IntN(20)) * time.Second)
	}
	return Submit{q}
}

func (w *world) endTry() Event {
	id := w.anyID()
	ev := TryEnded{ID: id, PromptTokens: w.rng.IntN(1000), OutputTokens: w.rng.IntN(100)}
	if q := w.requests[id]; q != nil {
		ev.Try = max(0, q.try-w.rng.IntN(20)/19) // one in twenty is of an earlier try
	}
	if w.rng.IntN(2) == 0 {
		ev.Outcome = Outcome(w.rng.IntN(int(Broken) + 1))
	}
	if ev.Outcome == Overloaded && w.rng.IntN(2) == 0 {
		ev.RetryAfter = time.Duration(w.rng.IntN(10)) * time.Second
	}
	return ev
}

// anyID is often an old one, for those in flight are the oldest.
func (w *world) anyID() ID {
	return w.nextID - min(w.nextID, ID(w.rng.IntN(60)))
}

// finish shows that nothing is stuck: with one good engine, everything held comes to an end.
func (w *world) finish() {
	w.t.Helper()
	for id := range 4 {
		w.handle(EngineDown{rollout.EngineID(fmt.Sprintf("e%d", id))})
	}
	w.handle(EngineUp{ID: "good", Limit: 1000, Models: models})
	w.now = w.now.Add(3 * time.Second) // longer than any flush window
	w.handle(Tick{})
	for before := -1; before != len(w.requests); {
		before = len(w.requests)
		for id := ID(1); id <= w.nextID; id++ {
			if q := w.requests[id]; q != nil {
				w.handle(TryEnded{ID: id, Try: q.try, Outcome: Served})
			}
		}
	}
	if len(w.requests) > 0 {
		w.t.Fatalf("%d requests are stuck: %+v", len(w.requests), w.s.Stats())
	}
	if n := len(w.s.held) + len(w.s.deadlines) + w.s.queued; n != 0 {
		w.t.Fatalf("%d traces of requests are left", n)
	}
	for _, r := range w.s.runs {
		if r.held != 0 || r.queued != 0 || len(r.lanes) != 0 {
			w.t.Fatalf("run %s is not empty: %+v", r.name, r)
		}
	}
}

func TestRulesEndWithTheRun(t *testing.T) {
	t.Parallel()
	s := New(Config{})
	now := time.Unix(0, 0)
	s.Handle(now, RunRules{"r", runspec.Dispatch{MaxInFlightPerEngine: 1}})
	s.Handle(now, RunOver{"r"})
	if st := s.Stats(); len(st.Runs) != 0 {
		t.Errorf("the run is kept: %+v", st.Runs)
	}
}

// TestOldestGroupFirst: whatever the order of arrival, one engine serves a run's groups in the order of their launch.
func TestOldestGroupFirst(t *testing.T) {
	t.Parallel()
	s := New(Config{})
	now := time.Unix(0, 0)
	rng := rand.New(rand.NewPCG(1, 2))
	for i, seq := range rng.Perm(500) {
		s.Handle(now, Submit{Request{ID: ID(i), Model: "m",
			Episode: rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "r", Seq: rollout.GroupSeq(seq)}}}})
	}
	next := rollout.GroupSeq(0)
	groups := map[ID]rollout.GroupSeq{}
	for id, e := range s.held {
		groups[id] = e.Episode.Seq
	}
	commands := append([]Command(nil), s.Handle(now, EngineUp{ID: "a", Limit: 1, Models: []string{"m"}})...)
	for len(commands) > 0 {
		sent, ok := commands[0].(Send)
		if !ok {
			break
		}
		if groups[sent.ID] != next {
			t.Fatalf("group %d was served, want %d", groups[sent.ID], next)
		}
		next++
		commands = append([]Command(nil), s.Handle(now, TryEnded{ID: sent.ID, Try: 1})...)
	}
	if next != 500 {
		t.Errorf("%d of 500 were served", next)
	}
}

// TestSharesOfTwoRuns: of two runs that always want more, each gets half of the work, whatever their requests' sizes.
func TestSharesOfTwoRuns(t *testing.T) {
	t.Parallel()
	s := New(Config{})
	now := time.Unix(0, 0)
	id := ID(0)
	size := map[rollout.RunName]int{"big": 4000, "small": 100}
	of := map[ID]rollout.RunName{}
	submit := func(r rollout.RunName) []Command {
		id++
		of[id] = r
		return append([]Command(nil), s.Handle(now, Submit{Request{ID: id, Model: "m", PromptTokens: size[r], OutputTokens: 1,
			Episode: rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: r}}}})...)
	}
	for range 200 {
		submit("big")
		submit("small")
	}
	work := map[rollout.RunName]int{}
	commands := append([]Command(nil), s.Handle(now, EngineUp{ID: "a", Limit: 8, Models: []string{"m"}})...)
	for range 4000 {
		sent := commands[0].(Send)
		commands = commands[1:]
		r := of[sent.ID]
		work[r] += size[r]
		commands = append(commands, submit(r)...)
		commands = append(commands,
			s.Handle(now, TryEnded{ID: sent.ID, Try: 1, Outcome: Served, PromptTokens: size[r], OutputTokens: 1})...)
	}
	if ratio := float64(work["big"]) / float64(work["small"]); ratio < 0.9 || ratio > 1.1 {
		t.Errorf("big runs got %d tokens, small ones %d", work["big"], work["small"])
	}
}
