package dispatch

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// FuzzNeighbour is the law that no run stops another: on engines that serve one run, each of its requests is sent
// within the time that places are held by others whose turn it is, plus one probe, whatever they ask for and
// however that ends.
func FuzzNeighbour(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed, uint8(seed))
	}
	f.Fuzz(func(t *testing.T, seed uint64, habits uint8) {
		n := newStreet(t, seed, habits)
		n.live(40 * time.Second)
	})
}

// The law's terms.
const (
	longestHold  = time.Second            // of a place, by a try of anybody
	probeLatency = 50 * time.Millisecond  // every engine lives
	firstProbe   = 500 * time.Millisecond // Config.ProbeAfter
)

// longestWait is for the tries that are under way, then for one of each neighbour and one more for what the honest
// run was served last; and all that for each request that the honest run has at a time, of which the second is
// served after the first.
func (n *street) longestWait() time.Duration {
	return time.Duration((2+n.neighbours)*n.atOnce)*longestHold + firstProbe + probeLatency
}

// street is an honest run and its neighbours, over engines that serve it well, in made-up time.
type street struct {
	t       *testing.T
	rng     *rand.Rand
	now     time.Time
	s       *Scheduler
	todo    agenda
	order   int
	nextID  ID
	honest  rollout.RunName
	asked   map[ID]time.Time // the honest run's requests that wait: since when
	sizes   int              // of the honest run's requests, in tokens
	ends    []Outcome        // how the neighbours' tries end
	life    bool             // a keeper tells signs of life
	engines int
	served  int

	neighbours int
	atOnce     int // requests of the honest run
}

// due is something to be done at a time; of one time, in order of arrival.
type due struct {
	at    time.Time
	order int
	do    func()
}

type agenda []due

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at.Before(a[j].at) || a[i].at.Equal(a[j].at) && a[i].order < a[j].order
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(due)) }
func (a *agenda) Pop() any {
	last := len(*a) - 1
	d := (*a)[last]
	*a = (*a)[:last]
	return d
}

func newStreet(t *testing.T, seed uint64, habits uint8) *street {
	n := &street{
		t: t, rng: rand.New(rand.NewPCG(seed, uint64(habits))), now: time.Unix(1_800_000_000, 0),
		s: New(Config{MaxQueued: 40, NoEngineTTL: 20 * time.Second}), asked: map[ID]time.Time{}, honest: "m",
	}
	n.life, n.engines, n.sizes = n.rng.IntN(2) == 0, 1+n.rng.IntN(3), 50+n.rng.IntN(2000)
	// A neighbour has one bad habit, or all of them.
	all := []Outcome{TimedOut, Failed, Broken, Refused, Missing, Overloaded, Aborted, Unfit, Served}
	if n.ends = all; habits%4 != 0 {
		n.ends = all[int(habits/4)%len(all):][:1]
	}
	for i := range n.engines {
		n.handle(EngineUp{
			ID: rollout.EngineID(rune('a' + i)), Limit: 2 + n.rng.IntN(4), Models: []string{"base"},
			Adapters: []string{"x", "y"},
			Slots:    n.rng.IntN(3),
		})
	}
	return n
}

func (n *street) after(d time.Duration, do func()) {
	n.order++
	heap.Push(&n.todo, due{n.now.Add(d), n.order, do})
}

// between is a time from one to the other.
func (n *street) between(least, most time.Duration) time.Duration {
	return least + time.Duration(n.rng.Int64N(int64(most-least)))
}

func (n *street) live(span time.Duration) {
	end := n.now.Add(span)
	n.atOnce = 1 + n.rng.IntN(2)
	for range n.atOnce {
		n.after(n.between(0, 3*time.Second), n.ask)
	}
	n.neighbours = 1 + n.rng.IntN(3)
	for i := range n.neighbours {
		run := rollout.RunName([]string{"a", "x", "z"}[i]) // before and after the honest one's name, which breaks ties
		n.after(n.between(0, 3*time.Second), func() { n.pester(run) })
	}
	if n.life {
		n.after(0, n.keep)
	}
	for len(n.todo) > 0 && n.now.Before(end) {
		next := heap.Pop(&n.todo).(due)
		n.now = next.at
		next.do()
		for id, since := range n.asked {
			if waited := n.now.Sub(since); waited > n.longestWait() {
				n.t.Fatalf("honest request %d has waited for %v, want at most %v; %+v", id, waited, n.longestWait(), n.s.Stats())
			}
		}
	}
	if n.served < 10 {
		n.t.Fatalf("the honest run was served %d times in %v", n.served, span)
	}
}

// ask is the honest run's next request.
func (n *street) ask() {
	n.nextID++
	id := n.nextID
	n.asked[id] = n.now
	n.handle(Submit{Request{ID: id, Model: "base", PromptTokens: n.sizes, OutputTokens: 10,
		Episode: rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: n.honest}}}})
}

// pester is a neighbour that asks for something, again and again.
func (n *street) pester(run rollout.RunName) {
	n.after(n.between(10*time.Millisecond, time.Second), func() { n.pester(run) })
	if n.rng.IntN(20) == 0 {
		w := world{rng: n.rng}
		n.handle(RunRules{run, w.randomRules()})
	}
	for range 1 + n.rng.IntN(30) {
		n.nextID++
		id := n.nextID
		q := Request{
			ID: id, Model: []string{"base", "base", "x", "nobody's"}[n.rng.IntN(4)], PromptTokens: 1 + n.rng.IntN(50_000),
			OutputTokens: 1 + n.rng.IntN(5000),
			Episode: rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: run,
				Seq: rollout.GroupSeq(n.rng.IntN(9))}, Sample: n.rng.IntN(9)},
		}
		if n.rng.IntN(3) == 0 {
			q.Deadline = n.now.Add(n.between(time.Millisecond, 5*time.Second))
		}
		if n.rng.IntN(4) == 0 {
			n.after(n.between(time.Millisecond, 5*time.Second), func() { n.handle(Cancel{id}) })
		}
		n.handle(Submit{q})
	}
}

// keep tells signs of life, as the keeper does of engines that generate tokens.
func (n *street) keep() {
	n.after(time.Second, n.keep)
	for i := range n.engines {
		n.handle(EngineSampled{rollout.EngineID(rune('a' + i)), Load{At: n.now, Running: 1, LifeAt: n.now}})
	}
}

func (n *street) handle(ev Event) {
	for _, c := range append([]Command(nil), n.s.Handle(n.now, ev)...) {
		switch c := c.(type) {
		case Send:
			n.sent(c)
		case Reject:
			if _, ours := n.asked[c.ID]; ours {
				n.t.Fatalf("honest request %d is rejected: %s", c.ID, c.Reason)
			}
		case Abandon:
			if since, ours := n.asked[c.ID]; ours {
				n.t.Fatalf("honest request %d, asked at %v, is taken off %s", c.ID, since, c.Engine)
			}
		case Probe:
			n.after(probeLatency, func() { n.handle(EngineProbed{ID: c.Engine, OK: true}) })
		case Wake:
			n.after(c.At.Sub(n.now), func() { n.handle(Tick{}) })
		}
	}
}

// sent is a try at an engine, which serves the honest run well.
func (n *street) sent(c Send) {
	ev := TryEnded{ID: c.ID, Try: c.Try, PromptTokens: n.sizes, OutputTokens: 10}
	if _, ours := n.asked[c.ID]; ours {
		delete(n.asked, c.ID)
		n.after(n.between(50*time.Millisecond, 300*time.Millisecond), func() {
			n.served++
			n.handle(ev)
			n.after(n.between(0, 2*time.Second), n.ask)
		})
		return
	}
	ev.Outcome = n.ends[n.rng.IntN(len(n.ends))]
	if ev.Outcome == Overloaded {
		ev.RetryAfter = n.between(time.Millisecond, time.Hour)
	}
	ev.Code = rollout.Code(fmt.Sprint(ev.Outcome))
	n.after(n.between(0, longestHold), func() { n.handle(ev) })
}
