package serving

import (
	"fmt"
	"hash/fnv"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/simulate/enginesim/batch"
	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
)

// world plays at random with a fleet and checks after every event what must always hold.
type world struct {
	t      *testing.T
	fleet  *Fleet
	agenda *virtualtime.Agenda
	random *virtualtime.Random

	engines map[rollout.EngineID]*watched
	limits  map[rollout.EngineID]int
	asked   map[uint64]Request // by tag, not ended
	ids     []dispatch.ID
	actions int // yet to come
	now     time.Duration
	course  []string

	submitted, completed, rejected, cancelled int64
	input, output                             int64
}

// watched is an engine whose limits are watched.
type watched struct {
	enginemodel.Engine
	t      *testing.T
	limits batch.Limits
	calls  map[uint64]enginemodel.Call
	output int64 // of calls that ended
}

func (e *watched) Submit(now time.Duration, calls []enginemodel.Call) error {
	if err := e.Engine.Submit(now, calls); err != nil {
		return err
	}
	for _, c := range calls {
		e.calls[c.ID] = c
	}
	return nil
}

func (e *watched) Abort(now time.Duration, id uint64) bool {
	delete(e.calls, id)
	return e.Engine.Abort(now, id)
}

func (e *watched) Advance(now time.Duration) []enginemodel.Event {
	events := e.Engine.Advance(now)
	for _, ev := range events {
		if ev.At > now {
			e.t.Fatalf("at %v the engine reports what happens at %v", now, ev.At)
		}
		if ev.Kind == enginemodel.Ended {
			c, held := e.calls[ev.ID]
			if !held || ev.Cached < 0 || ev.Cached >= c.Prompt {
				e.t.Fatalf("call %d ended, held %t, with %d of %d tokens cached", ev.ID, held, ev.Cached, c.Prompt)
			}
			e.output += int64(c.Output)
			delete(e.calls, ev.ID)
		}
	}
	st := e.Engine.Stats()
	if st.Running > e.limits.Sequences || st.KV > e.limits.KV || st.Running+st.Waiting != len(e.calls) {
		e.t.Fatalf("the engine is beyond its limits %+v: %+v, with %d calls", e.limits, st, len(e.calls))
	}
	return events
}

func newWorld(t *testing.T, seed uint64, actions int) *world {
	w := &world{
		t: t, agenda: virtualtime.NewAgenda(), random: virtualtime.NewRandom(seed, "world"), actions: actions,
		engines: map[rollout.EngineID]*watched{}, limits: map[rollout.EngineID]int{}, asked: map[uint64]Request{},
	}
	w.fleet = New(w.agenda, Config{
		CallOverhead: time.Duration(w.random.IntN(3)) * 20 * time.Millisecond,
		SampleEvery:  time.Duration(w.random.IntN(2)) * time.Second,
		Scheduler:    dispatch.Config{MaxQueued: 60, MaxSessions: 16, NoEngineTTL: 10 * time.Second},
		Log: func(_ time.Time, ev dispatch.Event, commands []dispatch.Command) {
			for _, c := range commands {
				if _, tick := c.(dispatch.Wake); !tick {
					w.course = append(w.course, fmt.Sprintf("%v %T %+v", w.agenda.Now(), ev, c))
				}
			}
		},
	})
	w.agenda.At(0, 0, w, 0)
	return w
}

// Happen is the next random action.
func (w *world) Happen(now time.Duration, _ uint64) {
	w.act()
	if w.actions--; w.actions > 0 {
		w.agenda.At(now+time.Duration(w.random.Exponential()*float64(60*time.Millisecond)), 0, w, 0)
		return
	}
	if len(w.engines) == 0 {
		w.add("last")
	}
}

func (w *world) pick(of ...string) string { return of[w.random.IntN(len(of))] }

func (w *world) act() {
	id := rollout.EngineID(w.pick("a", "b", "c", "d"))
	switch n := w.random.IntN(100); {
	case n < 70:
		w.submit()
	case n < 76:
		if len(w.ids) > 0 {
			w.cancel(w.random.IntN(len(w.ids)))
		}
	case n < 82:
		if w.engines[id] == nil {
			w.add(id)
		}
	case n < 86:
		w.fleet.SetAdapters(id, []string{"v1", "v2"}[:w.random.IntN(3)])
	case n < 88:
		w.fleet.LoadAdapter(id, w.pick("v1", "v2", "v3"), w, 0)
	case n < 91:
		w.fleet.Slow(id, 0.5+4*w.random.Float64())
	case n < 94:
		w.fleet.LoseEngine(id)
		delete(w.engines, id)
	case n < 96:
		w.fleet.DrainEngine(id)
		delete(w.engines, id)
	default:
		w.rules()
	}
}

func (w *world) add(id rollout.EngineID) {
	l := batch.Limits{
		Sequences: 1 + w.random.IntN(8), Tokens: 64 + w.random.IntN(2000), KV: 1500 + w.random.IntN(5000), Block: 16,
		Adapters: 1 + w.random.IntN(2), HostAdapter: 2,
	}
	e := &watched{
		Engine: enginemodel.NewContinuous(batch.A100Qwen7B(), l, 1), t: w.t, limits: l, calls: map[uint64]enginemodel.Call{},
	}
	w.engines[id], w.limits[id] = e, 1+w.random.IntN(12)
	w.fleet.AddEngine(id, e, w.limits[id], w.random.IntN(3), []string{"base"})
}

func (w *world) submit() {
	w.submitted++
	prompt := 1 + w.random.IntN(1500)
	r := Request{
		Episode: rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: rollout.RunName(w.pick("r", "s")),
			Seq: rollout.GroupSeq(w.random.IntN(5))}, Sample: w.random.IntN(3)},
		Model: w.pick("base", "base", "v1", "v2"), Prompt: prompt, Output: 1 + w.random.IntN(60), Client: w,
		Tag: uint64(w.submitted),
		Shared: []enginemodel.Prefix{{Key: 1, Tokens: 100},
			{Key: uint64(2 + w.random.IntN(3)), Tokens: 100 + w.random.IntN(9)*50}},
	}
	if w.random.IntN(5) == 0 {
		r.Deadline = w.agenda.Now() + time.Duration(w.random.IntN(5000))*time.Millisecond
	}
	if w.random.IntN(5) == 0 {
		r.Timeout = time.Duration(1+w.random.IntN(3000)) * time.Millisecond
	}
	w.asked[r.Tag] = r
	w.ids = append(w.ids, w.fleet.Submit(r))
}

func (w *world) cancel(i int) {
	before := w.fleet.Totals().Cancelled
	w.fleet.Cancel(w.ids[i])
	if w.fleet.Totals().Cancelled > before {
		w.cancelled++
		delete(w.asked, uint64(w.ids[i])) // tags count like ids
	}
}

func (w *world) rules() {
	rules := runspec.Dispatch{
		AffinitySlack: w.random.IntN(4) - 1, GroupPerEngine: w.random.IntN(3), MaxInFlightPerEngine: w.random.IntN(5),
		Order: runspec.DispatchOrder(w.pick("", "arrival", "shortest_first")), Ageing: float64(w.random.IntN(20)),
		Queue: runspec.DispatchQueue(w.pick("shared", "per_engine")),
	}
	w.fleet.Rules(rollout.RunName(w.pick("r", "s")), rules)
}

func (w *world) AdapterLoaded(time.Duration, rollout.EngineID, uint64) {}

func (w *world) Answered(now time.Duration, tag uint64, a Answer) {
	r, open := w.asked[tag]
	if !open || now != w.agenda.Now() || a.Ended != now || a.Submitted > now {
		w.t.Fatalf("at %v request %d ended, open %t: %+v", now, tag, open, a)
	}
	delete(w.asked, tag)
	if a.Rejected != "" {
		w.rejected++
		return
	}
	if a.Prompt != r.Prompt || a.Output != r.Output || a.Sent < a.Submitted || a.Attempts < 1 {
		w.t.Fatalf("request %+v was answered %+v", r, a)
	}
	w.completed++
	w.input += int64(a.Prompt)
	w.output += int64(a.Output)
}

func (w *world) check() {
	if w.agenda.Now() < w.now {
		w.t.Fatalf("time runs back from %v to %v", w.now, w.agenda.Now())
	}
	w.now = w.agenda.Now()
	got, st := w.fleet.Totals(), w.fleet.Scheduler()
	// A rejection is counted before the client hears of it.
	if got.Submitted != w.submitted || got.Completed != w.completed || got.Cancelled < w.cancelled ||
		got.Input != w.input || got.Output != w.output ||
		got.Submitted != got.Completed+got.Rejected+got.Cancelled+got.Held || got.Held != int64(st.Queued+st.InFlight) {
		w.t.Fatalf("books do not balance: %+v, %+v, seen %d = %d + %d + %d", got, st, w.submitted, w.completed, w.rejected,
			w.cancelled)
	}
	for _, e := range st.Engines {
		if e.InFlight > w.limits[e.ID] {
			w.t.Fatalf("engine %s has %d in flight, of %d", e.ID, e.InFlight, w.limits[e.ID])
		}
	}
}

// play plays to the end and returns a hash of what the scheduler commanded.
func (w *world) play() uint64 {
	for w.agenda.Step() {
		w.check()
	}
	if len(w.asked) > 0 || len(w.fleet.requests) > 0 || len(w.fleet.spare) != len(w.fleet.slots) {
		w.t.Fatalf("%d requests are open, %d held, %d of %d free", len(w.asked), len(w.fleet.requests), len(w.fleet.spare),
			len(w.fleet.slots))
	}
	h := fnv.New64a()
	for _, line := range w.course {
		_, _ = h.Write([]byte(line))
	}
	return h.Sum64()
}

// FuzzLaws: whatever arrives, is cancelled, is lost, becomes slow or changes its rules, requests and tokens are
// conserved, no engine is above its limits, time never runs back, and the same seed takes the same course.
func FuzzLaws(f *testing.F) {
	for seed := range uint64(12) {
		f.Add(seed, uint16(300))
	}
	f.Fuzz(func(t *testing.T, seed uint64, actions uint16) {
		n := 1 + int(actions%1000)
		if one, other := newWorld(t, seed, n).play(), newWorld(t, seed, n).play(); one != other {
			t.Error("the same seed takes another course")
		}
	})
}
