package diagnosis

import (
	"cmp"
	"math"
	"slices"
)

// replayedStep is one step of a replay.
type replayedStep struct {
	wait, wall float64
	ready      float64 // batches ready when taken
}

// replay plays the given number of steps.
func (p *replayModel) replay(steps int) []replayedStep {
	r := newReplayFleet(p)
	first := p.steps[0]
	r.launch(min(first.depth, p.stalenessLimit+1) * first.take)
	played := make([]replayedStep, 0, steps)
	end := r.await(min(p.first, r.launched))
	for k := range steps {
		s := looped(p.steps, p.stepLoop, k)
		if short := s.take - r.outstanding; short > 0 { // a batch grew beyond what is outstanding
			r.launch(short)
		}
		take := min(s.take, r.outstanding)
		start := max(end, r.await(take)) + s.handover
		if take == 0 || math.IsInf(start, 1) {
			break // all groups of the run are trained on, or none is played any more
		}
		r.advance(start)
		ready := r.claim(take)
		r.launch(min(s.depth, p.stalenessLimit)*s.take - r.outstanding)
		wall := start - end + s.compute
		played = append(played, replayedStep{wait: start - end, wall: wall, ready: float64(ready) / float64(s.take)})
		end += wall
		r.advance(end)
		r.launch(min(s.depth, p.stalenessLimit+1)*s.take - r.outstanding)
	}
	return played
}

// looped is values[k], or beyond the end the values from loop on, over and over.
func looped[T any](values []T, loop, k int) T {
	if k < len(values) {
		return values[k]
	}
	return values[loop+(k-loop)%(len(values)-loop)]
}

// replayFleet is the engines and workers of a replay, and the groups that they play.
//
// All groups in play share one speed. So one number is enough: progress, how far a group played since the beginning
// would be. A group ends when progress has grown by the time that it takes alone.
type replayFleet struct {
	model       *replayModel
	now         float64
	engines     float64
	window      int // of the model's windows, the present one
	launched    int
	outstanding int // launched, not claimed

	coming  []comingGroup  // launched, on their way, by the time of their start
	queue   []comingGroup  // waiting for room, oldest first; the first may be partly played
	playing []playingGroup // by their end
	ready   []readyGroup   // played, by the time at which they are ready

	progress float64
	held     float64 // requests that the playing groups would have in flight alone
	games    float64 // their places at workers
	inFlight float64 // at an engine
	// speed is the progress per second, and part the share of it that the queue's first group makes.
	speed, part float64
	most        float64 // held that the engines take
}

type comingGroup struct {
	seq  int
	at   float64 // of its start
	left float64 // of what it takes alone
}

type playingGroup struct {
	seq int
	end float64 // progress at its end
}

type readyGroup struct {
	seq int
	at  float64
}

func newReplayFleet(p *replayModel) *replayFleet {
	r := &replayFleet{model: p, engines: p.engines}
	if len(p.windows) > 0 {
		r.engines = p.windows[0].engines
	}
	r.most = r.engines * p.mostAlone()
	r.admit()
	return r
}

// mostAlone is how many requests an engine at its limit holds of those that would be in flight alone.
func (p *replayModel) mostAlone() float64 {
	if math.IsInf(p.limit, 1) {
		return p.limit
	}
	slow := p.curve.Slowdown(p.limit + p.others)
	return p.limit * p.stretch(slow) / slow
}

// stretch is how many times as long a group takes as alone, when requests take slow times as long.
func (p *replayModel) stretch(slow float64) float64 { return p.fixed + (1-p.fixed)*slow }

// group is the group of a number; those beyond the record repeat its last level.
func (r *replayFleet) group(seq int) *replayGroup {
	groups, loop := r.model.groups, r.model.groupLoop
	if seq >= len(groups) {
		seq = loop + (seq-loop)%(len(groups)-loop)
	}
	return &groups[seq]
}

// launch launches so many groups now, as far as the run has them.
func (r *replayFleet) launch(count int) {
	if total := r.model.total; total > 0 {
		count = min(count, total-r.launched)
	}
	for range max(0, count) {
		g := r.group(r.launched)
		c := comingGroup{r.launched, r.now + g.before, g.alone}
		i := len(r.coming)
		for i > 0 && r.coming[i-1].at > c.at {
			i--
		}
		r.coming = slices.Insert(r.coming, i, c)
		r.launched++
		r.outstanding++
	}
	r.arrive()
}

// await is when so many unclaimed groups are ready; now, if they are.
func (r *replayFleet) await(count int) float64 {
	for {
		next := r.next()
		if len(r.ready) >= count && count > 0 && r.ready[count-1].at <= next {
			return max(r.now, r.ready[count-1].at)
		}
		if math.IsInf(next, 1) { // nothing is played any more
			return next
		}
		r.to(next)
	}
}

// advance plays on until a time.
func (r *replayFleet) advance(until float64) {
	for next := r.next(); next <= until; next = r.next() {
		r.to(next)
	}
	r.play(until)
}

// claim takes so many of the groups that are ready now and says how many were.
func (r *replayFleet) claim(take int) (ready int) {
	for ready < len(r.ready) && r.ready[ready].at <= r.now+1e-9*math.Abs(r.now) {
		ready++
	}
	ready = max(ready, take)
	if !r.model.byFinish {
		slices.SortFunc(r.ready[:ready], func(a, b readyGroup) int { return a.seq - b.seq })
	}
	r.ready = slices.Delete(r.ready, 0, take)
	slices.SortStableFunc(r.ready[:ready-take], func(a, b readyGroup) int { return cmp.Compare(a.at, b.at) })
	r.outstanding -= take
	return ready
}

// next is when something happens next by itself.
func (r *replayFleet) next() float64 {
	next := math.Inf(1)
	if len(r.coming) > 0 {
		next = r.coming[0].at
	}
	if len(r.playing) > 0 && r.speed > 0 {
		next = min(next, r.now+max(0, r.playing[0].end-r.progress)/r.speed)
	}
	if r.part > 0 {
		next = min(next, r.now+r.queue[0].left/(r.part*r.speed))
	}
	if r.window < len(r.model.windows) && !math.IsInf(next, 1) {
		next = min(next, max(r.now, r.model.windows[r.window].until))
	}
	return next
}

// to goes on to what happens at a time that next gave.
func (r *replayFleet) to(at float64) {
	r.play(at)
	for r.window < len(r.model.windows) && r.model.windows[r.window].until <= r.now {
		r.window++
		r.engines = r.model.engines
		if r.window < len(r.model.windows) {
			r.engines = r.model.windows[r.window].engines
		}
		r.most = r.engines * r.model.mostAlone()
	}
	tiny := 1e-12 * (1 + r.progress)
	for len(r.playing) > 0 && r.playing[0].end <= r.progress+tiny {
		seq := r.playing[0].seq
		r.playing = r.playing[1:]
		g := r.group(seq)
		r.held, r.games = max(0, r.held-g.held), max(0, r.games-g.games)
		r.finish(seq, g)
	}
	if r.part > 0 && r.queue[0].left <= tiny {
		seq := r.queue[0].seq
		r.queue = r.queue[1:]
		r.finish(seq, r.group(seq))
	}
	r.arrive()
}

// play lets time pass in which nothing happens.
func (r *replayFleet) play(until float64) {
	if sec := until - r.now; sec > 0 {
		r.progress += sec * r.speed
		if r.part > 0 {
			r.queue[0].left -= sec * r.speed * r.part
		}
		r.now = until
	}
}

func (r *replayFleet) finish(seq int, g *replayGroup) {
	one := readyGroup{seq, r.now + g.after}
	i := len(r.ready)
	for i > 0 && r.ready[i-1].at > one.at {
		i--
	}
	r.ready = slices.Insert(r.ready, i, one)
}

// arrive queues the groups whose time has come, and starts those for which there is room.
func (r *replayFleet) arrive() {
	n := 0
	for ; n < len(r.coming) && r.coming[n].at <= r.now; n++ {
		c := r.coming[n]
		i := len(r.queue)
		for i > 0 && r.queue[i-1].seq > c.seq {
			i--
		}
		r.queue = slices.Insert(r.queue, i, c)
	}
	r.coming = slices.Delete(r.coming, 0, n)
	r.admit()
}

// admit starts the queue's groups in their order, as far as engines and workers have room: the last one in part.
func (r *replayFleet) admit() {
	r.part = 0
	for len(r.queue) > 0 {
		c := r.queue[0]
		g := r.group(c.seq)
		room := min(share(r.most-r.held, g.held), share(r.model.places-r.games, g.games))
		if room < 1-1e-9 {
			r.part = max(0, room)
			break
		}
		r.queue = r.queue[1:]
		r.held += g.held
		r.games += g.games
		end := r.progress + c.left
		i, _ := slices.BinarySearchFunc(r.playing, end, func(g playingGroup, end float64) int {
			return cmp.Compare(g.end, end)
		})
		r.playing = slices.Insert(r.playing, i, playingGroup{c.seq, end})
	}
	held := r.held
	if r.part > 0 {
		held += r.part * r.group(r.queue[0].seq).held
	}
	r.speed = r.speedWith(held)
}

// share is the part of a need that fits into the room.
func share(room, need float64) float64 {
	if need <= 0 {
		return 1
	}
	return room / need
}

// speedWith is the progress per second with groups in play that would hold so many requests alone.
func (r *replayFleet) speedWith(held float64) float64 {
	p := r.model
	if r.engines <= 0 {
		return 0
	}
	over := 1.0
	if held > r.most { // engines were lost
		over, held = r.most/held, r.most
	}
	each := held / r.engines
	n, slow := r.inFlight, 1.0
	for range 30 {
		slow = p.curve.Slowdown(n + p.others)
		to := each * slow / p.stretch(slow)
		if math.Abs(to-n) <= 1e-6*(1+to) {
			break
		}
		n = to
	}
	r.inFlight = n
	return over / p.stretch(slow)
}
