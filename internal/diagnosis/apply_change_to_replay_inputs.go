package diagnosis

import (
	"slices"

	"github.com/millrace/millrace/internal/engine/capacity"
	"github.com/millrace/millrace/internal/kit/stat"
)

// change is the difference between a replay and the recorded run. The zero value is the run itself. Factors multiply
// recorded values; 0 means unchanged. Seconds are added, or, if negative, taken away. A change applies to all steps.
type change struct {
	engines    float64 // factor on the number of engines
	engineTime float64 // factor on an engine's time per token, at any load: 0.5 is engines twice as fast
	requestUse float64 // factor on the tokens per request
	gameLength float64 // factor on the requests per game, and on what its environment takes
	games      float64 // factor on the games that are played for each batch: drops, refills and repeats
	envTime    float64 // factor on the time that games spend in their environment
	workers    float64 // factor on the games that workers play at a time
	otherWork  float64 // factor on the requests of other runs at the engines

	computeSec   float64 // of the trainer, per step
	handoverSec  float64 // between a batch that is ready and the trainer
	stallSec     float64 // of each engine, per step, in which it serves nothing
	stragglerCap float64 // quantile of the groups beyond which none takes longer; 0: none is capped
	gamesNeeded  int     // of each group, with which it is complete; the others are cancelled

	depth       int // batches outstanding
	take        int // groups per step
	engineLimit int // requests of this run in flight at an engine
	// admitted is how many batches staleness lets be outstanding while the trainer works on one.
	admitted int
}

// changed is the model of the run with a change. The original stays as it is.
func (p *replayModel) changed(c change) *replayModel {
	q := *p
	q.groups, q.steps, q.windows = slices.Clone(p.groups), slices.Clone(p.steps), slices.Clone(p.windows)
	q.changeGroups(c)
	q.changeFleet(c)
	for k := range q.steps {
		s := &q.steps[k]
		s.compute = max(0, s.compute+c.computeSec)
		s.handover = max(0, s.handover+c.handoverSec)
	}
	if c.admitted > 0 {
		q.stalenessLimit = c.admitted
	}
	if c.depth > 0 {
		q.deepen(c.depth - p.steps[len(p.steps)-1].depth)
	}
	if c.take > 0 {
		for k := range q.steps {
			q.steps[k].take = c.take
		}
		q.first, q.total = min(q.first, q.steps[0].depth*c.take), 0
	}
	return &q
}

// changeGroups makes the groups' time and work what the change makes of it.
func (p *replayModel) changeGroups(c change) {
	engine := factor(c.engineTime) * factor(c.requestUse)
	if c.stallSec != 0 && p.stepSec > 0 {
		engine *= max(0.01, 1+c.stallSec/p.stepSec)
	}
	env := factor(c.envTime)
	stretched := p.fixed*env + (1-p.fixed)*engine // of a group's time, played alone
	for i := range p.groups {
		g := &p.groups[i]
		g.shorten(c)
		work := g.held * g.alone * engine * factor(c.games)
		g.alone *= stretched
		g.held = work / g.alone
		g.games *= factor(c.games)
		g.alone *= factor(c.gameLength)
	}
	if stretched > 0 {
		p.fixed = p.fixed * env / stretched
	}
	if c.stragglerCap > 0 {
		p.capGroups(stat.Quantile(p.aloneSec(), c.stragglerCap))
	}
}

// shorten ends a group when the games that are needed have ended.
func (g *replayGroup) shorten(c change) {
	n := len(g.lengths)
	needed := n
	if c.gamesNeeded > 0 {
		needed = min(needed, c.gamesNeeded)
	}
	if needed == n || n == 0 || g.lengths[n-1] <= 0 {
		return
	}
	end, all, left := g.lengths[needed-1], 0.0, 0.0
	for _, sec := range g.lengths {
		all += sec
		left += min(sec, end)
	}
	work := g.held * g.alone * left / all
	g.alone *= max(1e-6, end/g.lengths[n-1])
	g.held = work / g.alone
	g.games = left / end
}

// aloneSec is the time that the groups of the last level take, each played alone.
func (p *replayModel) aloneSec() []float64 {
	var alone []float64
	for _, g := range p.groups[p.groupLoop:] {
		alone = append(alone, g.alone)
	}
	return alone
}

// capGroups lets no group take longer than so many seconds, for the same work.
func (p *replayModel) capGroups(most float64) {
	for i := range p.groups {
		if g := &p.groups[i]; g.alone > most {
			g.shorterBy(most / g.alone)
		}
	}
}

// shorterBy makes a group take only this part of its time, for the same work.
func (g *replayGroup) shorterBy(part float64) {
	g.alone, g.held, g.games = g.alone*part, g.held/part, g.games/part
}

// changeFleet makes engines and workers what the change makes of them.
func (p *replayModel) changeFleet(c change) {
	p.engines *= factor(c.engines)
	for i := range p.windows {
		p.windows[i].engines *= factor(c.engines)
	}
	p.places *= factor(c.workers)
	others := p.others * factor(c.otherWork) / factor(c.engines)
	p.limit += p.others - others
	p.others = others
	if c.engineLimit > 0 {
		p.limit = float64(c.engineLimit)
	}
}

// deepen keeps more batches outstanding from the start, and waits for them first if the run did; fewer, if more is
// negative.
func (p *replayModel) deepen(more int) {
	if p.first >= p.steps[0].depth*p.steps[0].take {
		p.first = max(p.steps[0].take, p.first+more*p.steps[0].take)
	}
	for k := range p.steps {
		p.steps[k].depth = max(1, p.steps[k].depth+more)
	}
}

// withCurve is the model if engines were slowed down by their load otherwise. What was recorded stays as it was: the
// groups are read anew.
func (p *replayModel) withCurve(c capacity.Curve) *replayModel {
	q := *p
	q.groups = slices.Clone(p.groups)
	var fixed, alone float64
	for i := range q.groups {
		g := &q.groups[i]
		was, is := p.curve.Slowdown(g.load), c.Slowdown(g.load)
		env := min(g.alone, g.env)
		work := g.held * g.alone * was / is
		g.alone = env + (g.alone-env)*was/is
		g.held = work / g.alone
		fixed += env
		alone += g.alone
	}
	if alone > 0 {
		q.fixed = min(1, fixed/alone)
	}
	q.curve, q.possible = c, nil
	return &q
}

func factor(f float64) float64 {
	if f == 0 {
		return 1
	}
	return f
}
