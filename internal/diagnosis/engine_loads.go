package diagnosis

import (
	"cmp"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// mostGroups bounds the groups whose timelines the engines' load is rebuilt from: the latest ones.
const mostGroups = 3000

// engineLoads is how many of this run's requests were in flight at an engine, over time, rebuilt from the timelines of
// the groups: each game holds an even share of what its group had in flight.
type engineLoads struct {
	origin   time.Time
	at       []float64 // seconds since origin
	held     []float64 // requests in flight from at[i] on, over all engines
	others   float64   // requests of other work at each engine
	half     float64   // of the curve by which unlike loads are weighed; 0: they count by their time
	integral []float64 // of weighed loads until at[i]; see weighBy
	plain    []float64 // and of the loads themselves
	// partial: the timelines are of a part of what is in flight alone, because groups were dropped, or other runs are at
	// the engines. What the engines were seen to have counts then.
	partial bool
	sampled []sampledWindow
	windows []engineWindow
	usual   float64 // engines, where no window says it
}

// sampledWindow is what engines were seen to have in flight, each, in the window of a step.
type sampledWindow struct{ from, to, inFlight float64 }

// engineWindow is how many engines there were until a time.
type engineWindow struct{ until, engines float64 }

// loadsOf rebuilds the loads from the latest groups, which it returns with them.
func loadsOf(m *measurements) (engineLoads, []playedGroup) {
	groups := latestGroups(m)
	l := engineLoads{usual: max(1, m.fleet.engines)}
	if len(groups) == 0 {
		return l, nil
	}
	l.origin = groups[0].view.Times.StartedAt
	for _, g := range groups {
		if g.view.Times.StartedAt.Before(l.origin) {
			l.origin = g.view.Times.StartedAt
		}
	}
	type edge struct{ at, held float64 }
	var edges []edge
	for i := range groups {
		g := &groups[i]
		g.from = secondsBetween(l.origin, g.view.Times.StartedAt)
		for _, sec := range g.episodes() {
			edges = append(edges, edge{g.from, g.held()}, edge{g.from + sec, -g.held()})
			g.to = max(g.to, g.from+sec)
		}
	}
	edges = append(edges, unfinished(m, l.origin, groups, func(at, held float64) edge { return edge{at, held} })...)
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
	held := 0.0
	for _, e := range edges {
		held += e.held
		if n := len(l.at); n > 0 && l.at[n-1] == e.at {
			l.held[n-1] = held
			continue
		}
		l.at, l.held = append(l.at, e.at), append(l.held, held)
	}
	for i := range m.all {
		v := m.all[i].view()
		if v.Fleet.Engines > 0 {
			to := secondsBetween(l.origin, v.GrantedAt)
			l.windows = append(l.windows, engineWindow{to, v.Fleet.Engines})
			l.sampled = append(l.sampled, sampledWindow{to - v.Fleet.WindowSec, to, v.Fleet.InFlight})
		}
	}
	l.weighBy(0)
	l.plain = l.integral
	return l, groups
}

// busyWindow is the part of a step's window in which engines had something to do.
type busyWindow struct {
	from, busy float64
	// load is the requests in flight at an engine meanwhile, as they count: the mean of what was seen and of what was
	// rebuilt.
	load float64
}

// windowOf is what engines had in flight over the window of a step.
func (l *engineLoads) windowOf(v *steprecord.ServiceView) busyWindow {
	f := &v.Fleet
	to := secondsBetween(l.origin, v.GrantedAt)
	w := busyWindow{from: to - f.WindowSec}
	if len(l.at) == 0 || to <= 0 || f.WindowSec <= 0 {
		return w
	}
	start := max(0, w.from)
	idle := l.idle(start, to)
	w.busy = to - start - idle
	if w.busy <= 0 {
		return w
	}
	w.load = l.busyMean(start, to, idle)
	sampled := f.InFlight * f.WindowSec / w.busy
	switch {
	case l.partial:
		w.load = sampled
	case sampled > 0 && w.load > 0: // two views of the same, that err differently
		plain := l.plainly(func() float64 { return l.busyMean(start, to, idle) })
		w.load *= (1 + sampled/plain) / 2
	}
	return w
}

// weighBy says how unlike loads within a time count: as an engine of this curve feels them, half being the load at
// which it is twice as slow. What is done in a time is the sum of what is done at each load, and most is done where
// the load is low: the load that does as much all the time is less than the mean.
func (l *engineLoads) weighBy(half float64) {
	l.half, l.integral = half, make([]float64, len(l.at))
	for i := 1; i < len(l.at); i++ {
		l.integral[i] = l.integral[i-1] + (l.at[i]-l.at[i-1])*l.weighed(i-1)
	}
}

// weighed is the load from at[i] on, as it counts.
func (l *engineLoads) weighed(i int) float64 {
	n := max(0, l.held[i])/l.engines(l.at[i]) + l.others
	if l.half > 0 {
		return 1 / (l.half + n)
	}
	return n
}

// unweighed is the load that a mean of weighed ones stands for.
func (l *engineLoads) unweighed(mean float64) float64 {
	if l.half > 0 && mean > 0 {
		return max(0, 1/mean-l.half)
	}
	return mean
}

// unfinished is what the groups hold that were launched and are in no record yet: as much as others, from about when
// they were launched.
func unfinished[E any](m *measurements, origin time.Time, groups []playedGroup, from func(at, held float64) E) []E {
	last := m.all[len(m.all)-1].view()
	if m.in.Over || last.GrantedAt.IsZero() {
		return nil
	}
	count := int(last.AtClaim.InFlight+last.AtClaim.Queued) + len(last.Groups)
	held, delay := 0.0, 0.0
	for i := range groups {
		held += groups[i].held() * float64(len(groups[i].episodes())) / float64(len(groups))
		delay += launchToStart(groups[i].view) / float64(len(groups))
	}
	var out []E
	for i := len(m.all) - 1; i >= 0 && count > 0; i-- {
		v := m.all[i].view()
		launched := min(count, len(v.Groups))
		out = append(out, from(max(0, secondsBetween(origin, v.GrantedAt)+delay), held*float64(launched)))
		count -= launched
	}
	return out
}

// playedGroup is a group with what it held in flight and when, in seconds since the loads' origin.
type playedGroup struct {
	view     *steprecord.GroupView
	step     rollout.Step // that it was trained on in
	from, to float64
}

// episodes is the length of each of its games; without them, of the whole group.
func (g *playedGroup) episodes() []float64 {
	if len(g.view.EpisodeSec) > 0 {
		return g.view.EpisodeSec
	}
	return []float64{max(0, secondsBetween(g.view.Times.StartedAt, g.view.Times.ReadyAt))}
}

// held is the requests that one of its games has in flight on average.
func (g *playedGroup) held() float64 {
	sec := 0.0
	for _, e := range g.episodes() {
		sec += e
	}
	if sec <= 0 {
		return 0
	}
	return g.view.Usage.ExecSec / sec
}

// latestGroups is the groups of the latest steps, and of the first ones, in which a buffer that is filled loads engines
// otherwise.
func latestGroups(m *measurements) []playedGroup {
	var groups []playedGroup
	for i := len(m.all) - 1; i >= 0 && len(groups) < mostGroups; i-- {
		v := m.all[i].view()
		for j := range v.Groups {
			g := &v.Groups[j]
			if !g.Times.StartedAt.IsZero() && g.Usage.ExecSec > 0 {
				groups = append(groups, playedGroup{view: g, step: m.all[i].no})
			}
		}
	}
	return groups
}

// engines is how many engines there were at a time.
func (l *engineLoads) engines(at float64) float64 {
	i, _ := slices.BinarySearchFunc(l.windows, at, func(w engineWindow, at float64) int {
		return cmp.Compare(w.until, at)
	})
	if i < len(l.windows) {
		return l.windows[i].engines
	}
	return l.usual
}

// until is the integral until a time.
func (l *engineLoads) until(at float64) float64 {
	i, found := slices.BinarySearch(l.at, at)
	switch {
	case found:
		return l.integral[i]
	case i == 0:
		return 0
	}
	return l.integral[i-1] + l.weighed(i-1)*(at-l.at[i-1])
}

// mean is the requests in flight at an engine between two times.
func (l *engineLoads) mean(from, to float64) float64 {
	if to <= from {
		return 0
	}
	return l.unweighed((l.until(to) - l.until(from)) / (to - from))
}

// busyMean is the mean between two times without the seconds in which nothing was in flight.
func (l *engineLoads) busyMean(from, to, idle float64) float64 {
	rest := l.others
	if l.half > 0 {
		rest = 1 / (l.half + l.others)
	}
	return l.unweighed(max(0, l.until(to)-l.until(from)-idle*rest) / (to - from - idle))
}

// idle is how many seconds between two times nothing was in flight.
func (l *engineLoads) idle(from, to float64) float64 {
	const hardlyAny = 0.5
	i, _ := slices.BinarySearch(l.at, from)
	sum := 0.0
	for i = max(0, i-1); i < len(l.at) && l.at[i] < to; i++ {
		end := to
		if i+1 < len(l.at) {
			end = min(to, l.at[i+1])
		}
		if l.held[i] < hardlyAny {
			sum += max(0, end-max(from, l.at[i]))
		}
	}
	return sum
}

// sampledOver is what engines were seen to have in flight between two times; 0: nobody looked.
func (l *engineLoads) sampledOver(from, to float64) float64 {
	sum, sec := 0.0, 0.0
	for _, w := range l.sampled {
		if shared := min(to, w.to) - max(from, w.from); shared > 0 {
			sum += shared * w.inFlight
			sec += shared
		}
	}
	return sum / max(1e-9, sec)
}

// over is the requests in flight beside a group while it was played, as its games felt them.
func (l *engineLoads) over(g *playedGroup) float64 {
	if l.partial {
		return l.sampledOver(g.from, g.to)
	}
	sum, sec := 0.0, 0.0
	for _, e := range g.episodes() {
		sum += e * l.mean(g.from, g.from+e)
		sec += e
	}
	if sec <= 0 {
		return 0
	}
	return sum / sec
}

// plainly is what something gives when unlike loads count by their time.
func (l *engineLoads) plainly(of func() float64) float64 {
	half, integral := l.half, l.integral
	defer func() { l.half, l.integral = half, integral }()
	if half > 0 {
		l.half, l.integral = 0, l.plain
	}
	return of()
}

// rateOverTime is a quantity that changes at known times, such as requests in flight, with its integral. It is sorted
// once, so that each look at it costs a search: a run has as many adapter loads as publications times engines.
type rateOverTime struct {
	origin time.Time
	at     []float64 // seconds since the origin, rising
	sum    []float64 // the integral until then
	rate   []float64 // from then on
}

// stretch is a time in which the rate is higher by so much.
type stretch struct {
	from, to time.Time
	rate     float64
}

// integrated adds stretches up. Those without a time of their own count nothing.
func integrated(stretches []stretch) *rateOverTime {
	type edge struct{ at, by float64 }
	r := &rateOverTime{}
	for _, s := range stretches {
		if !s.from.IsZero() && (r.origin.IsZero() || s.from.Before(r.origin)) {
			r.origin = s.from
		}
	}
	edges := make([]edge, 0, 2*len(stretches))
	for _, s := range stretches {
		if s.from.IsZero() || !s.to.After(s.from) {
			continue
		}
		edges = append(edges, edge{s.from.Sub(r.origin).Seconds(), s.rate}, edge{s.to.Sub(r.origin).Seconds(), -s.rate})
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by)) })
	rate, sum := 0.0, 0.0
	for i, e := range edges {
		if i > 0 {
			sum += rate * (e.at - edges[i-1].at)
		}
		rate += e.by
		r.at, r.sum, r.rate = append(r.at, e.at), append(r.sum, sum), append(r.rate, rate)
	}
	return r
}

// in is the integral over a window.
func (r *rateOverTime) in(from, to time.Time) float64 {
	if from.IsZero() || !to.After(from) || len(r.at) == 0 {
		return 0
	}
	return max(0, r.until(to)-r.until(from))
}

// mean is the mean over a window.
func (r *rateOverTime) mean(from, to time.Time) float64 {
	if sec := secondsBetween(from, to); sec > 0 {
		return r.in(from, to) / sec
	}
	return 0
}

// until is the integral until a time.
func (r *rateOverTime) until(t time.Time) float64 {
	at := t.Sub(r.origin).Seconds()
	i, _ := slices.BinarySearch(r.at, at)
	if i == 0 {
		return 0
	}
	return r.sum[i-1] + r.rate[i-1]*(at-r.at[i-1])
}
