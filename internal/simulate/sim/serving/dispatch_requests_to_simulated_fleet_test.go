package serving

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
	"github.com/millrace/millrace/internal/simulate/sim/virtualtime"
)

// plain is an engine that works on every call for a second per output token, on all at the same time, and writes down
// what it is given.
type plain struct {
	given []string
	calls []plainCall
	slow  float64
	most  int // prompt tokens of a call that it takes; 0: any number
	stats enginemodel.Stats
}

type plainCall struct {
	id   uint64
	ends time.Duration
	kind enginemodel.EventKind
}

func (p *plain) Submit(now time.Duration, calls []enginemodel.Call) error {
	var ids []string
	for _, c := range calls {
		ids = append(ids, fmt.Sprint(c.ID))
		if p.most > 0 && c.Prompt > p.most {
			return fmt.Errorf("too long")
		}
	}
	p.given = append(p.given, fmt.Sprintf("%v: %s", now, strings.Join(ids, "+")))
	for _, c := range calls {
		took := time.Duration(float64(c.Output) * max(p.slow, 1) * float64(time.Second))
		p.calls = append(p.calls, plainCall{c.ID, now + took, enginemodel.Ended})
	}
	return nil
}

func (p *plain) Abort(now time.Duration, id uint64) bool {
	i := slices.IndexFunc(p.calls, func(c plainCall) bool { return c.id == id })
	if i < 0 {
		return false
	}
	p.given = append(p.given, fmt.Sprintf("%v: without %d", now, id))
	p.calls = slices.Delete(p.calls, i, i+1)
	return true
}

func (p *plain) Load(now time.Duration, id uint64, adapter string) {
	p.given = append(p.given, fmt.Sprintf("%v: load %s", now, adapter))
	p.calls = append(p.calls, plainCall{id, now + 3*time.Second, enginemodel.Loaded})
}

func (p *plain) SetSlow(_ time.Duration, factor float64) { p.slow = factor }

func (p *plain) Advance(now time.Duration) []enginemodel.Event {
	var events []enginemodel.Event
	p.calls = slices.DeleteFunc(p.calls, func(c plainCall) bool {
		if c.ends > now {
			return false
		}
		events = append(events, enginemodel.Event{At: c.ends, ID: c.id, Kind: c.kind, Cached: 1})
		return true
	})
	return events
}

func (p *plain) Next() (at time.Duration, ok bool) {
	for _, c := range p.calls {
		if !ok || c.ends < at {
			at, ok = c.ends, true
		}
	}
	return at, ok
}

func (p *plain) Stats() enginemodel.Stats {
	p.stats.Running = len(p.calls)
	return p.stats
}

// bench is a fleet, and what its clients hear.
type bench struct {
	*Fleet
	agenda *virtualtime.Agenda
	heard  []string
}

func newBench(cfg Config) *bench {
	b := &bench{agenda: virtualtime.NewAgenda()}
	b.Fleet = New(b.agenda, cfg)
	return b
}

func (b *bench) Answered(now time.Duration, tag uint64, a Answer) {
	if a.Rejected != "" {
		b.heard = append(b.heard, fmt.Sprintf("%v: %d rejected: %s", now, tag, a.Rejected))
		return
	}
	b.heard = append(b.heard, fmt.Sprintf("%v: %d from %s", now, tag, a.Engine))
}

func (b *bench) AdapterLoaded(now time.Duration, e rollout.EngineID, tag uint64) {
	b.heard = append(b.heard, fmt.Sprintf("%v: %s loaded %d", now, e, tag))
}

// at has something done at a time.
func (b *bench) at(sec float64, do func()) {
	b.agenda.At(time.Duration(sec*float64(time.Second)), 0, action(do), 0)
}

type action func()

func (do action) Happen(time.Duration, uint64) { do() }

// ask submits a request for so many output tokens under a tag.
func (b *bench) ask(tag uint64, output int, change ...func(*Request)) dispatch.ID {
	r := Request{
		Episode: rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "r", Seq: rollout.GroupSeq(tag)}},
		Model:   "base", Prompt: 100, Output: output, Client: b, Tag: tag,
	}
	for _, c := range change {
		c(&r)
	}
	return b.Submit(r)
}

func (b *bench) add(id rollout.EngineID, limit int) *plain {
	p := &plain{}
	b.AddEngine(id, p, limit, 0, []string{"base"})
	return p
}

// TestCourses is what clients hear in the end. Engines take a second per output token, and a call's way takes one
// second there and one back.
func TestCourses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		play func(b *bench)
		want []string
	}{
		{"there, the work, and back", func(b *bench) {
			b.add("a", 1)
			b.ask(1, 5)
		}, []string{"7s: 1 from a"}},
		{"a full engine makes requests wait", func(b *bench) {
			b.add("a", 1)
			b.ask(1, 5)
			b.ask(2, 5)
		}, []string{"7s: 1 from a", "14s: 2 from a"}},
		{"an engine that comes later", func(b *bench) {
			b.ask(1, 5)
			b.at(10, func() { b.add("a", 1) })
		}, []string{"17s: 1 from a"}},
		{"no engine ever", func(b *bench) { b.ask(1, 5) }, []string{"1m0s: 1 rejected: no_engine"}},
		{"a deadline in the queue", func(b *bench) {
			b.add("a", 1)
			b.ask(1, 5)
			b.ask(2, 5, func(r *Request) { r.Deadline = 4 * time.Second })
		}, []string{"4s: 2 rejected: deadline", "7s: 1 from a"}},
		{"a drained engine finishes what it has", func(b *bench) {
			b.add("a", 1)
			b.ask(1, 5)
			b.ask(2, 5)
			b.at(3, func() { b.DrainEngine("a") })
			b.at(20, func() { b.add("b", 1) })
		}, []string{"7s: 1 from a", "27s: 2 from b"}},
		{"a lost engine's requests go elsewhere", func(b *bench) {
			b.add("a", 2)
			b.ask(1, 5)
			b.ask(2, 9)
			b.at(5, func() { b.add("b", 2) })
			b.at(6.5, func() { b.LoseEngine("a") }) // the first answer is on its way
		}, []string{"13.5s: 1 from b", "17.5s: 2 from b"}},
		{"a lost engine comes back", func(b *bench) {
			b.add("a", 1)
			b.ask(1, 5)
			b.at(3, func() { b.LoseEngine("a") })
			b.at(10, func() { b.add("a", 1) })
		}, []string{"17s: 1 from a"}},
		{"an engine becomes slow, and fast again", func(b *bench) {
			b.add("a", 1)
			b.ask(1, 5)
			b.ask(2, 5)
			b.ask(3, 5)
			b.at(3, func() { b.Slow("a", 2) })
			b.at(12, func() { b.Slow("a", 1) })
		}, []string{"7s: 1 from a", "19s: 2 from a", "26s: 3 from a"}},
		{"cancelled in the queue, on the way, inside, on the way back", func(b *bench) {
			p := b.add("a", 1)
			ids := make([]dispatch.ID, 6)
			for i := range ids {
				ids[i] = b.ask(uint64(i), 5)
			}
			b.at(0.5, func() { b.Cancel(ids[0]); b.Cancel(ids[5]) })
			b.at(3, func() { b.Cancel(ids[1]) })
			b.at(9.5, func() { b.Cancel(ids[2]) })
			b.at(100, func() { b.heard = append(b.heard, p.given...) })
		}, []string{"16.5s: 3 from a", "23.5s: 4 from a", "1.5s: 2", "3s: without 2", "4s: 3", "10.5s: 4", "17.5s: 5"}},
		{"a try that takes too long", func(b *bench) {
			p := b.add("a", 1)
			p.slow = 10
			b.ask(1, 5, func(r *Request) { r.Timeout = 20 * time.Second })
			b.at(15, func() { b.add("b", 1) })
		}, []string{"27s: 1 from b"}},
		{"a request that no engine takes", func(b *bench) {
			b.add("a", 1).most = 50
			b.add("b", 1).most = 50
			b.ask(1, 5)
		}, []string{"4s: 1 rejected: refused"}},
		{"a request that one engine does not take", func(b *bench) {
			b.add("a", 1).most = 50
			b.add("b", 1)
			b.ask(1, 5)
		}, []string{"9s: 1 from b"}},
		{"a full queue", func(b *bench) {
			b.add("a", 1)
			for i := range uint64(7) {
				b.ask(i, 1)
			}
		}, []string{"0s: 6 rejected: queue_full", "3s: 0 from a", "6s: 1 from a", "9s: 2 from a", "12s: 3 from a",
			"15s: 4 from a", "18s: 5 from a"}},
		{"an adapter is served when it is said to be", func(b *bench) {
			b.add("a", 1)
			b.ask(1, 5, func(r *Request) { r.Model = "v1" })
			b.LoadAdapter("a", "v1", b, 77)
			b.at(10, func() { b.SetAdapters("a", []string{"v1"}) })
		}, []string{"3s: a loaded 77", "17s: 1 from a"}},
		{"nobody hears of a load on an engine that was lost", func(b *bench) {
			b.add("a", 1)
			b.LoadAdapter("a", "v1", b, 77)
			b.at(2, func() { b.LoseEngine("a") })
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(Config{CallOverhead: 2 * time.Second, Scheduler: dispatch.Config{MaxQueued: 5}})
			tt.play(b)
			playOut(b.agenda)
			if !slices.Equal(b.heard, tt.want) {
				t.Errorf("got  %q\nwant %q", b.heard, tt.want)
			}
		})
	}
}

// TestRefusal: a request that the engine refuses is rejected, and the others go on.
func TestRefusal(t *testing.T) {
	t.Parallel()
	b := newBench(Config{CallOverhead: 2 * time.Second})
	b.add("a", 100).most = 200
	for i := range uint64(2) {
		b.ask(i, 2, func(r *Request) { r.Prompt = 100 + 200*int(i) })
	}
	playOut(b.agenda)
	if want := []string{"2s: 1 rejected: refused", "4s: 0 from a"}; !slices.Equal(b.heard, want) {
		t.Errorf("got  %q\nwant %q", b.heard, want)
	}
}

// TestTotals: sums over time, to be worked out by hand.
func TestTotals(t *testing.T) {
	t.Parallel()
	b := newBench(Config{CallOverhead: 2 * time.Second})
	b.add("a", 1)
	b.add("b", 2)
	for i := range uint64(4) {
		b.ask(i, 8) // 10 s each: 3 at once, then one
	}
	b.at(4, func() { b.LoseEngine("b") }) // two go back to the queue, and are served one after the other
	b.at(50, func() {})
	playOut(b.agenda)
	got := b.Totals()
	want := Totals{
		EngineSec: 50 + 4, LimitSec: 50 + 2*4, InFlightSec: 3*4 + 36, QueuedSec: 1*4 + 3*6 + 2*10 + 1*10,
		Input: 400, Cached: 4, Output: 32, Submitted: 4, Completed: 4, Redispatched: 2,
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestLogReplays: what the log was told, given to a new scheduler, brings the same commands.
func TestLogReplays(t *testing.T) {
	t.Parallel()
	twin := dispatch.New(dispatch.Config{})
	events := 0
	b := newBench(Config{
		CallOverhead: time.Second, Start: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), SampleEvery: time.Second,
		Log: func(now time.Time, event dispatch.Event, commands []dispatch.Command) {
			events++
			if again := twin.Handle(now, event); len(again)+len(commands) > 0 && !reflect.DeepEqual(again, commands) {
				t.Fatalf("%v: %#v: %#v, want %#v", now, event, again, commands)
			}
		},
	})
	b.add("a", 2)
	b.add("b", 2)
	for i := range uint64(30) {
		b.ask(i%7, 1+int(i)%5)
	}
	b.at(9, func() { b.LoseEngine("a") })
	playOut(b.agenda)
	if len(b.heard) != 30 || events < 60 {
		t.Errorf("%d answers, %d events", len(b.heard), events)
	}
}

// TestSamplesCutTheWindow: an engine that says twice that most of its requests wait gets fewer, as in a live fleet.
func TestSamplesCutTheWindow(t *testing.T) {
	t.Parallel()
	b := newBench(Config{SampleEvery: time.Second})
	p := b.add("a", 10)
	p.stats.Waiting = 8
	for i := range uint64(20) {
		b.ask(i, 100)
	}
	window := func() int { return b.Scheduler().Engines[0].Window }
	b.at(1.5, func() {
		if n := window(); n != 10 {
			t.Errorf("one sample cuts to %d", n)
		}
	})
	b.at(2.5, func() {
		if n := window(); n != 8 {
			t.Errorf("two samples cut to %d, want 8", n)
		}
	})
	playOut(b.agenda)
	if len(b.heard) != 20 {
		t.Errorf("%d answers", len(b.heard))
	}
}
