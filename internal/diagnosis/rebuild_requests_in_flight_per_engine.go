package diagnosis

import (
	"cmp"
	"slices"
	"time"

	"gonum.org/v1/gonum/floats"

	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// mostGroups bounds the groups whose timelines the engines' load is rebuilt from: the latest ones.
const mostGroups = 3000

// engineLoads is how many requests were in flight at an engine, over time, rebuilt from the timelines of this run's
// groups: each game holds an even share of what its group had in flight.
type engineLoads struct {
	held    *rateOverTime // this run's requests, over all engines
	busy    *rateOverTime // 1 while any of them is in flight
	plain   loadMean      // of loads that count by their time
	weighed loadMean      // and as an engine feels them; see weighBy
	others  float64       // requests of other work at each engine
	// partial: the timelines cover only a part of the requests in flight, because groups were dropped, or other runs
	// use the engines. Then the engines' samples count.
	partial bool
	// sampled is each engine's requests in flight in the windows of the steps, and windows is 1 in each.
	sampled, windows *rateOverTime
	engines          []engineWindow // by seconds since the origin of held
	usual            float64        // engines, where no window says it
}

// engineWindow is how many engines there were until a time.
type engineWindow struct{ until, engines float64 }

// loadsOf rebuilds the loads from the latest groups, which it returns with them.
func loadsOf(m *measurements) (engineLoads, []playedGroup) {
	groups := latestGroups(m)
	l := engineLoads{usual: max(1, m.fleet.engines)}
	held := unfinished(m, groups)
	for i := range groups {
		g := &groups[i]
		for _, sec := range g.episodes() {
			end := g.from().Add(seconds(sec))
			held = append(held, stretch{g.from(), end, g.held()})
			if end.After(g.to) {
				g.to = end
			}
		}
	}
	l.held = integrated(held)
	l.busy = l.held.mapped(whileBusy(func(_, _ float64) float64 { return 1 }))
	var sampled, windows []stretch
	for i := range m.all {
		if v := m.all[i].view(); v.Fleet.Engines > 0 {
			from := v.GrantedAt.Add(-seconds(v.Fleet.WindowSec))
			sampled = append(sampled, stretch{from, v.GrantedAt, v.Fleet.InFlight})
			windows = append(windows, stretch{from, v.GrantedAt, 1})
			l.engines = append(l.engines, engineWindow{units.SecondsBetween(l.held.origin, v.GrantedAt), v.Fleet.Engines})
		}
	}
	l.sampled, l.windows = integrated(sampled), integrated(windows)
	l.weighBy(0)
	l.plain = l.weighed
	return l, groups
}

// busyWindow is the part of a step's window in which engines had work.
type busyWindow struct {
	from time.Time
	busy float64
	// load is the requests in flight at an engine meanwhile, as they count: the mean of what was seen and of what was
	// rebuilt.
	load float64
}

// windowOf is the engines' requests in flight over the window of a step.
func (l *engineLoads) windowOf(v *steprecord.ServiceView) busyWindow {
	f := &v.Fleet
	w := busyWindow{from: v.GrantedAt.Add(-seconds(f.WindowSec))}
	w.busy = l.busy.in(w.from, v.GrantedAt)
	if f.WindowSec <= 0 || w.busy <= 0 {
		return w
	}
	sampled := f.InFlight * f.WindowSec / w.busy
	plain := l.plain.busy.in(w.from, v.GrantedAt) / w.busy
	switch w.load = l.weighed.of(l.weighed.busy.in(w.from, v.GrantedAt) / w.busy); {
	case l.partial:
		w.load = sampled
	case sampled > 0 && w.load > 0: // two views of the same, that err differently
		w.load *= (1 + sampled/plain) / 2
	}
	return w
}

// loadMean is a way to take the mean of unlike loads: of 1/(half + load), as an engine of the curve feels them, or of
// the loads themselves where half is 0.
type loadMean struct {
	half      float64
	all, busy *rateOverTime // and while anything is in flight
}

// of is the load that a mean stands for.
func (l *loadMean) of(mean float64) float64 {
	if l.half > 0 && mean > 0 {
		return max(0, 1/mean-l.half)
	}
	return mean
}

// weighBy says how unlike loads within a time count: as an engine of this curve feels them, half being the load at
// which it is twice as slow. What is done in a time is the sum of what is done at each load, and most is done where
// the load is low: the load that does as much all the time is less than the mean.
func (l *engineLoads) weighBy(half float64) {
	weighed := func(at, held float64) float64 {
		n := max(0, held)/l.enginesAt(at) + l.others
		if half > 0 {
			return 1 / (half + n)
		}
		return n
	}
	l.weighed = loadMean{half: half, all: l.held.mapped(weighed), busy: l.held.mapped(whileBusy(weighed))}
}

// whileBusy is 0 while hardly anything is in flight.
func whileBusy(of func(at, held float64) float64) func(at, held float64) float64 {
	const hardlyAny = 0.5
	return func(at, held float64) float64 {
		if held < hardlyAny {
			return 0
		}
		return of(at, held)
	}
}

// unfinished estimates the groups that were launched and are in no record yet: they hold as much as others, from about
// their launch.
func unfinished(m *measurements, groups []playedGroup) []stretch {
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
	var out []stretch
	for i := len(m.all) - 1; i >= 0 && count > 0; i-- {
		v := m.all[i].view()
		launched := min(count, len(v.Groups))
		from := v.GrantedAt.Add(seconds(delay))
		out = append(out, stretch{from, from.AddDate(1, 0, 0), held * float64(launched)})
		count -= launched
	}
	return out
}

// playedGroup is a group with the end of its longest game.
type playedGroup struct {
	view *steprecord.GroupView
	step rollout.Step // that it was trained on in
	to   time.Time
}

func (g *playedGroup) from() time.Time { return g.view.Times.StartedAt }

// episodes is the length of each of its games; without them, of the whole group.
func (g *playedGroup) episodes() []float64 {
	if len(g.view.EpisodeSec) > 0 {
		return g.view.EpisodeSec
	}
	return []float64{max(0, units.SecondsBetween(g.view.Times.StartedAt, g.view.Times.ReadyAt))}
}

// held is the average number of requests that one of its games has in flight.
func (g *playedGroup) held() float64 {
	if sec := floats.Sum(g.episodes()); sec > 0 {
		return g.view.Usage.ExecSec / sec
	}
	return 0
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

// enginesAt is how many engines there were at a time.
func (l *engineLoads) enginesAt(at float64) float64 {
	i, _ := slices.BinarySearchFunc(l.engines, at, func(w engineWindow, at float64) int {
		return cmp.Compare(w.until, at)
	})
	if i < len(l.engines) {
		return l.engines[i].engines
	}
	return l.usual
}

// over is the requests in flight beside a group while it was played, as its games felt them.
func (l *engineLoads) over(g *playedGroup) float64 {
	if l.partial {
		return l.sampled.in(g.from(), g.to) / max(1e-9, l.windows.in(g.from(), g.to))
	}
	felt, sec := 0.0, 0.0
	for _, e := range g.episodes() {
		felt += e * l.weighed.of(l.weighed.all.mean(g.from(), g.from().Add(seconds(e))))
		sec += e
	}
	return felt / max(1e-9, sec)
}
