package tokensim

import (
	"cmp"
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
)

// Run is a run under way: what a fault may change.
type Run struct {
	World
	now     float64
	timers  timers
	no      int
	rng     *rand.Rand
	trainer *rand.Rand
	engines []*engine
	queue   []*request
	queued  float64 // request-seconds in the queue
	queueAt float64

	groups           []*group
	launched         int
	playing          []*game
	forPlace         []*game
	claimed, done    int
	asked            float64
	waiting, looking bool
	version          int

	input diagnosis.Input
	views map[int]rollout.ServiceView
	last  []sums
	since float64
	qlast float64
}

type group struct {
	seq, version             int
	launched, started, ready float64
	games                    []*game
	ended                    int
	taken                    bool
}

type game struct {
	group                  *group
	turns, turn, open      int
	context                float64
	begun, ended           float64
	over                   bool
	requests               []*request
	slowest, exec, queue   float64
	model, waited, envSecs float64
	usage                  rollout.Usage
}

// Play plays a world to its end: what a diagnosis of it reads.
func Play(w World) diagnosis.Input {
	r := &Run{World: w, rng: rand.New(rand.NewPCG(w.Seed, 3)), trainer: rand.New(rand.NewPCG(w.Seed, 4)),
		views: map[int]rollout.ServiceView{}, waiting: true}
	r.input.Loads = []diagnosis.AdapterLoad{}
	for range w.Engines {
		r.newEngine()
	}
	r.last = make([]sums, len(r.engines))
	r.others()
	r.launch()
	for r.done < w.Steps && r.step() {
	}
	r.finishInput()
	return r.input
}

// Slow makes engines take so many times as long.
func (r *Run) Slow(factor float64, engines ...int) {
	for _, i := range engines {
		r.engines[i].slow = factor
	}
}

// Lose takes engines away.
func (r *Run) Lose(engines ...int) {
	for _, i := range engines {
		e := r.engines[i]
		r.queue = append(r.queue, e.lose()...)
		r.event(diagnosis.EventEngineLost, "engine "+string(e.id)+" lost: no answer")
	}
	slices.SortFunc(r.queue, byNumber)
}

// Operator notes what an operator did.
func (r *Run) Operator(text string) { r.event(diagnosis.EventConfig, text) }

func (r *Run) event(kind diagnosis.EventKind, text string) {
	r.input.Events = append(r.input.Events, diagnosis.Event{At: r.time(r.now), Kind: kind, Text: text})
}

func (r *Run) spread(sigma float64) float64 {
	return math.Exp(sigma*r.rng.NormFloat64() - sigma*sigma/2)
}

// launch keeps depth batches outstanding.
func (r *Run) launch() {
	for want := min(r.claimed+r.Depth, r.Steps+r.Depth) * r.Groups; r.launched < want; r.launched++ {
		g := &group{seq: r.launched, version: r.version, launched: r.now, started: -1, ready: -1}
		r.groups = append(r.groups, g)
		for range r.Games {
			m := &game{group: g, turns: max(1, int(math.Round(r.Turns*r.spread(r.TurnsSigma)))), begun: -1, context: r.Prompt}
			g.games = append(g.games, m)
			r.forPlace = append(r.forPlace, m)
		}
	}
	r.places()
}

func (r *Run) places() {
	r.playing = slices.DeleteFunc(r.playing, func(m *game) bool { return m.over })
	for len(r.forPlace) > 0 && (r.Places == 0 || len(r.playing) < r.Places) {
		m := r.forPlace[0]
		r.forPlace = r.forPlace[1:]
		if !m.over {
			r.playing = append(r.playing, m)
			r.ask(m)
		}
	}
	r.dispatch()
}

// ask sends the requests of a turn.
func (r *Run) ask(m *game) {
	m.open, m.slowest, m.requests = r.Agents, -1, m.requests[:0]
	for range r.Agents {
		r.no++
		q := &request{game: m, no: r.no, prompt: max(1, int(m.context)), output: max(1, int(r.Output*r.spread(0.3))),
			asked: r.now}
		if m.turn > 0 && r.rng.Float64() >= r.Miss {
			q.cached = int(0.9 * m.context)
		}
		m.requests = append(m.requests, q)
		r.accountQueue()
		r.queue = append(r.queue, q)
	}
}

// dispatch gives the oldest requests to the engines with the fewest.
func (r *Run) dispatch() {
	r.accountQueue()
	for len(r.queue) > 0 {
		q := r.queue[0]
		var best *engine
		limit := r.Slots
		if r.OwnLimit > 0 && q.game != nil {
			limit = min(limit, r.OwnLimit)
		}
		for _, e := range r.engines {
			if e.up && e.held() < limit && (best == nil || e.held() < best.held()) {
				best = e
			}
		}
		if !q.over && best == nil {
			return
		}
		r.queue = r.queue[1:]
		if q.over {
			continue
		}
		if m := q.game; m != nil {
			if m.begun < 0 {
				m.begun = r.now
			}
			if m.group.started < 0 {
				m.group.started = r.now
			}
		}
		best.take(q)
	}
}

func (r *Run) accountQueue() {
	r.queued += float64(len(r.queue)) * (r.now - r.queueAt)
	r.queueAt = r.now
}

func (r *Run) answered(q *request) {
	m := q.game
	if m == nil {
		r.others()
		return
	}
	q.over = true
	exec, queue := r.now-q.sent, q.sent-q.asked
	m.usage = m.usage.Add(rollout.Usage{Requests: 1, InputTokens: int64(q.prompt), CachedTokens: int64(q.cached),
		OutputTokens: int64(q.output), ExecSec: exec, QueueSec: queue})
	if exec+queue > m.slowest {
		m.slowest, m.exec, m.queue = exec+queue, exec, queue
	}
	if m.open--; m.open > 0 {
		return
	}
	m.model, m.waited, m.envSecs = m.model+m.exec, m.waited+m.queue, m.envSecs+r.Env
	m.context += r.Growth + r.Output
	m.turn++
	r.after(r.Env, func() { r.next(m) })
}

func (r *Run) next(m *game) {
	switch {
	case m.over:
	case m.turn < m.turns:
		r.ask(m)
		r.dispatch()
	default:
		r.ended(m)
	}
}

// ended ends a game, and with the last one needed its group.
func (r *Run) ended(m *game) {
	m.over, m.ended = true, r.now
	g := m.group
	if g.ended++; g.ended == cmp.Or(r.Need, r.Games) {
		for _, other := range g.games {
			if !other.over {
				other.over = true
				r.cancel(other)
			}
		}
		g.ready = r.now
	}
	r.places()
	r.look()
}

func (r *Run) cancel(m *game) {
	for _, q := range m.requests {
		if q.over {
			continue
		}
		q.over = true
		for _, e := range r.engines {
			e.drop(q)
		}
	}
}

// others keeps another run's requests in flight.
func (r *Run) others() {
	held := 0
	for _, e := range r.engines {
		for _, q := range slices.Concat(e.running, e.waiting) {
			if q.game == nil {
				held++
			}
		}
	}
	for _, q := range r.queue {
		if q.game == nil {
			held++
		}
	}
	for ; held < r.Others; held++ {
		r.no++
		r.queue = append(r.queue, &request{no: r.no, prompt: 400, output: 80, asked: r.now})
	}
}

// look claims the batch when it is there.
func (r *Run) look() {
	need := r.Groups
	if r.claimed == 0 {
		need = r.Depth * r.Groups
	}
	if !r.waiting || r.looking || len(r.readyGroups()) < need {
		return
	}
	r.looking = true
	r.after(r.Claim, r.claim)
}

func (r *Run) readyGroups() []*group {
	var out []*group
	for _, g := range r.groups {
		if g.ready >= 0 && !g.taken {
			out = append(out, g)
		}
	}
	return out
}

func (r *Run) claim() {
	r.looking, r.waiting = false, false
	k := r.claimed
	r.granted(k)
	batch := r.readyGroups()[:r.Groups]
	for _, g := range batch {
		g.taken = true
	}
	r.claimed++
	for _, f := range r.Faults {
		if f.Step == k {
			f.Do(r)
		}
	}
	r.others()
	r.launch()
	r.train(k, batch)
}

// train spends the phases, publishes, and asks for the next batch.
func (r *Run) train(k int, batch []*group) {
	phases := map[rollout.Phase]float64{rollout.PhaseWait: r.now - r.asked}
	vary := func(sec float64) float64 { return sec * math.Exp(r.CV*r.trainer.NormFloat64()) }
	phases[rollout.PhaseRefLogprobs], phases[rollout.PhaseTrain] = vary(r.Ref), vary(r.Train)
	phases[rollout.PhasePublish] = vary(r.Publish)
	r.after(phases[rollout.PhaseRefLogprobs]+phases[rollout.PhaseTrain]+phases[rollout.PhasePublish], func() {
		r.version = k + 1
		for _, e := range r.engines {
			if e.up && r.LoadSec > 0 {
				e.stalled = r.now + r.LoadSec
				r.input.Loads = append(r.input.Loads, diagnosis.AdapterLoad{At: r.time(e.stalled), Engine: e.id, Sec: r.LoadSec})
			}
		}
		r.completed(k, batch, phases)
		r.done++
		r.asked, r.waiting = r.now, true
		r.launch()
		r.look()
	})
}

var origin = time.Date(2026, time.May, 4, 6, 0, 0, 0, time.UTC)

func (r *Run) time(sec float64) time.Time {
	return origin.Add(time.Duration(sec * float64(time.Second)))
}

// timers are what happens, and when.
type timers []timer

type timer struct {
	at float64
	no int
	do func()
}

func (r *Run) after(sec float64, do func()) {
	r.no++
	heap.Push(&r.timers, timer{r.now + max(0, sec), r.no, do})
}

func (r *Run) step() bool {
	if len(r.timers) == 0 {
		return false
	}
	t := heap.Pop(&r.timers).(timer)
	r.now = t.at
	t.do()
	return true
}

func (t timers) Len() int { return len(t) }
func (t timers) Less(i, j int) bool {
	return t[i].at < t[j].at || t[i].at == t[j].at && t[i].no < t[j].no
}
func (t timers) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t *timers) Push(x any)   { *t = append(*t, x.(timer)) }
func (t *timers) Pop() any {
	old := *t
	last := old[len(old)-1]
	*t = old[:len(old)-1]
	return last
}
