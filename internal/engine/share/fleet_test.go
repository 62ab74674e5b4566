package share_test

import (
	"cmp"
	"container/heap"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch"
	"github.com/millrace/millrace/internal/engine/share"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// thaw lets a frozen worker go on.
func (w *simWorker) thaw() {
	w.frozen = false
	late := w.late
	w.late = nil
	for _, do := range late {
		do()
	}
}

// The rhythm of package fleetsync.
const (
	syncEvery = 250 * time.Millisecond
	heldFor   = time.Second
)

// fleet is workers, each with a scheduler of its own, that share engines in virtual time.
type fleet struct {
	t        testing.TB
	rnd      *rand.Rand
	now      time.Duration
	queue    events
	numbered int // events so far
	engines  []enginestate.Engine
	takes    time.Duration // an answer
	thinks   time.Duration // a game between two turns
	workers  map[string]*simWorker
	board    map[string]posted
	cut      bool // the board cannot be reached

	inFlight map[rollout.EngineID]int
	top      map[rollout.EngineID]int // most in flight since it was reset
	used     time.Duration            // slots in use, by time
	usedAt   time.Duration
	served   int
	rejected int
	ends     func(rollout.EngineID) dispatch.Outcome // nil: every try is served
	byRun    map[rollout.RunName]int
	bySeq    map[rollout.GroupSeq]int
	moved    int // slots taken up
}

type posted struct {
	member share.Member
	until  time.Duration
}

// simWorker is one of them.
type simWorker struct {
	fleet     *fleet
	id        string
	scheduler *dispatch.Scheduler
	share.Holder
	games  map[dispatch.ID]rollout.EpisodeRef
	next   dispatch.ID
	dead   bool
	frozen bool
	late   []func() // what happened while it was frozen

	connections map[dispatch.ID]func() // end its requests; when it dies, all of them
}

type event struct {
	at time.Duration
	n  int
	do func()
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].n < q[j].n
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func newFleet(t testing.TB, seed uint64, takes time.Duration, limits ...int) *fleet {
	return &fleet{t: t, rnd: rand.New(rand.NewPCG(seed, 7)), engines: ready(limits...), takes: takes,
		workers: map[string]*simWorker{}, board: map[string]posted{},
		inFlight: map[rollout.EngineID]int{}, top: map[rollout.EngineID]int{},
		byRun: map[rollout.RunName]int{}, bySeq: map[rollout.GroupSeq]int{}}
}

func (f *fleet) after(d time.Duration, do func()) {
	f.numbered++
	heap.Push(&f.queue, event{f.now + d, f.numbered, do})
}

// run lets time pass.
func (f *fleet) run(d time.Duration) {
	for end := f.now + d; ; {
		if len(f.queue) == 0 || f.queue[0].at > end {
			f.now = end
			return
		}
		e := heap.Pop(&f.queue).(event)
		f.now = e.at
		e.do()
	}
}

// measure is how many slots are in use on average while a time passes.
func (f *fleet) measure(d time.Duration) float64 {
	f.occupy("", 0)
	before := f.used
	f.run(d)
	f.occupy("", 0)
	return float64(f.used-before) / float64(d)
}

// occupy takes or frees slots of an engine.
func (f *fleet) occupy(id rollout.EngineID, n int) {
	all := 0
	for _, in := range f.inFlight {
		all += in
	}
	f.used += time.Duration(all) * (f.now - f.usedAt)
	f.usedAt = f.now
	if n != 0 {
		f.inFlight[id] += n
		f.top[id] = max(f.top[id], f.inFlight[id])
	}
}

func (f *fleet) join(id string) *simWorker {
	w := &simWorker{fleet: f, id: id, scheduler: dispatch.New(dispatch.Config{}), Holder: share.Holder{Worker: id},
		games: map[dispatch.ID]rollout.EpisodeRef{}, connections: map[dispatch.ID]func(){}}
	f.workers[id] = w
	f.after(time.Duration(f.rnd.Int64N(int64(syncEvery))), w.sync)
	return w
}

// kill ends a worker: at once, or with its leave taken. Its games go to another one, later.
func (f *fleet) kill(w *simWorker, orderly bool) (games []rollout.EpisodeRef) {
	w.dead = true
	games = slices.SortedFunc(maps.Values(w.games), func(a, b rollout.EpisodeRef) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Sample, b.Sample))
	})
	for _, id := range slices.Sorted(maps.Keys(w.connections)) {
		w.connections[id]()
	}
	delete(f.workers, w.id)
	if orderly {
		delete(f.board, w.id)
	}
	return games
}

// play gives a worker games of a group, each of which asks again as soon as it is answered.
func (w *simWorker) play(run rollout.RunName, seq rollout.GroupSeq, samples int) {
	for i := range samples {
		w.submit(rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: run, Seq: seq}, Sample: i})
	}
}

func (w *simWorker) submit(game rollout.EpisodeRef) {
	w.next++
	w.games[w.next] = game
	w.handle(dispatch.Submit{Request: dispatch.Request{ID: w.next, Episode: game, Model: "m", PromptTokens: 100,
		OutputTokens: 100}})
}

var start = time.Unix(1000, 0)

func (w *simWorker) handle(ev dispatch.Event) {
	if w.dead {
		return
	}
	if w.frozen {
		w.late = append(w.late, func() { w.handle(ev) })
		return
	}
	for _, c := range w.scheduler.Handle(start.Add(w.fleet.now), ev) {
		switch c := c.(type) {
		case dispatch.Send:
			w.send(c)
		case dispatch.Reject:
			w.fleet.rejected++
		}
	}
}

func (w *simWorker) send(s dispatch.Send) {
	f := w.fleet
	f.occupy(s.Engine, 1)
	lasts := time.Duration(float64(f.takes) * (0.5 + f.rnd.Float64()))
	ended := false
	end := func() {
		if ended {
			return
		}
		ended = true
		f.occupy(s.Engine, -1)
		delete(w.connections, s.ID)
		if w.dead {
			return
		}
		f.answered(w, s)
	}
	f.after(lasts, end)
	w.connections[s.ID] = end
}

func (f *fleet) answered(w *simWorker, s dispatch.Send) {
	if w.frozen {
		w.late = append(w.late, func() { f.answered(w, s) })
		return
	}
	if f.ends != nil && f.ends(s.Engine) != dispatch.Served {
		w.handle(dispatch.TryEnded{ID: s.ID, Try: s.Try, Outcome: f.ends(s.Engine)})
		return
	}
	game := w.games[s.ID]
	delete(w.games, s.ID)
	f.served++
	f.byRun[game.Run]++
	f.bySeq[game.Seq]++
	w.handle(dispatch.TryEnded{ID: s.ID, Try: s.Try, Outcome: dispatch.Served, PromptTokens: 100, OutputTokens: 100})
	f.after(f.thinks, func() { w.submit(game) })
}

// sync is what package fleetsync does every quarter of a second.
func (w *simWorker) sync() {
	if w.dead {
		return
	}
	f := w.fleet
	f.after(syncEvery, w.sync)
	if w.frozen || f.cut {
		return
	}
	demand := w.scheduler.Demand()
	_, continued := f.board[w.id]
	continued = continued && f.board[w.id].until > f.now
	if w.Heard(start.Add(f.now), f.engines, w.post(demand), demand, nil, continued) {
		before := maps.Clone(w.Shares)
		w.Taken(f.engines, w.post(demand))
		for id, n := range w.Shares {
			f.moved += n - before[id]
		}
	}
	for _, e := range share.Limits(&w.Division, w.id, w.Shares, f.engines, w.scheduler.AwaitsCertain()) {
		w.handle(dispatch.EngineUp{ID: e.ID, Limit: e.MaxInFlight, Models: e.Models})
	}
}

// post announces a worker and returns the others' announcements.
func (w *simWorker) post(demand []enginestate.RunDemand) []share.Member {
	f := w.fleet
	inFlight := map[rollout.EngineID]int{}
	for _, e := range w.scheduler.Stats().Engines {
		inFlight[e.ID] = e.InFlight
	}
	f.board[w.id] = posted{share.Member{Worker: w.id, Demand: demand, Held: w.Held(inFlight)}, f.now + heldFor}
	var others []share.Member
	for _, id := range slices.Sorted(maps.Keys(f.board)) {
		if p := f.board[id]; id != w.id && p.until > f.now {
			others = append(others, p.member)
		}
	}
	return others
}

// resetTop begins to watch what is in flight anew.
func (f *fleet) resetTop() { f.top = maps.Clone(f.inFlight) }

// topOver is the most that an engine had in flight beyond its limit since resetTop.
func (f *fleet) topOver() int {
	over := 0
	for _, e := range f.engines {
		over = max(over, f.top[e.ID]-e.MaxInFlight)
	}
	return over
}

func (f *fleet) String() string {
	out := ""
	for _, id := range slices.Sorted(maps.Keys(f.workers)) {
		out += fmt.Sprintf("%s %v; ", id, f.workers[id].Shares)
	}
	return out
}
