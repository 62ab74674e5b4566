package diagnosis

import (
	"math"
)

// But-for tests. What is suspected is put back to what it was, or taken away, and the present level of the run is
// replayed: what a step then loses is the cause's. One model, the replay, decides shares and what-ifs alike.
//
// Of a jump only the conditions within reach are replayed, in all their sets: the closed model of stepModel finds them,
// and says how far a share may be off, for which it is worked out thousands of times. It also stands in where a jump
// cannot be replayed: when it is over, or when the replay does not meet the record.

// mostReplayed bounds the conditions of a jump that are replayed: each more doubles the replays.
const mostReplayed = 4

// gain is by how much a step would be shorter with a change: the replay's relative gain, of the recorded step.
func (p *predictions) gain(reg *regime, c change) float64 {
	if p.model == nil {
		return 0
	}
	now := p.model.stepWith(change{})
	if !(now > 0) {
		return 0
	}
	return reg.StepSec * max(0, 1-p.model.stepWith(c)/now)
}

// stepWith is the steady step of the present level with a change.
func (p *replayModel) stepWith(c change) float64 { return p.changed(c).present().steadyStep() }

// butFor replays the present level with some of the conditions of a jump as they were.
type butFor struct {
	model  *replayModel
	step   *stepModel
	nowSec float64 // of the replay with nothing put back
}

// butForOf is nil where an effect cannot be replayed.
func butForOf(p *predictions, e effect, s *stepModel) *butFor {
	if p == nil || p.model == nil || !p.fit.Explains || e.healed {
		return nil
	}
	b := &butFor{model: p.model, step: s}
	if b.nowSec = p.model.stepWith(change{}); !(b.nowSec > 0) || math.IsInf(b.nowSec, 1) {
		return nil
	}
	return b
}

// seconds is the step time when some conditions are as they were before.
func (b *butFor) seconds(back []condition) float64 {
	q := b.model.changed(b.step.changeBack(back))
	q.respread(b.step, back)
	sec := q.present().steadyStep()
	if !(sec > 0) || math.IsInf(sec, 1) {
		return b.step.stepSec
	}
	return b.step.stepSec * sec / b.nowSec
}

// changeBack is the change of a replay that makes conditions what they were.
func (s *stepModel) changeBack(back []condition) change {
	const none = 1e-9 // a factor of 0 would leave things as they are
	var c change
	by := func(f *float64, with float64) { *f = factor(*f) * max(none, with) }
	for _, which := range back {
		old, now := s.old.or(which, 0), s.now.or(which, 0)
		ratio := 1.0
		if s.old.known(which) && now > 0 {
			ratio = old / now
		}
		switch which {
		case condLoad, condRef, condTrain, condPublish, condCheckpoint, condOther:
			c.computeSec -= now - old
		case condHandover:
			c.handoverSec -= now - old
		case condGroups:
			c.take = max(1, int(math.Round(old)))
		case condPlayed, condGames, condRetries:
			by(&c.games, ratio)
		case condRequests:
			by(&c.gameLength, ratio)
		case condPrompt, condUncached, condCompletion:
			by(&c.requestUse, 1/s.slower[which])
		case condSpeed, condMemory:
			by(&c.engineTime, 1/s.slower[which])
		case condStall:
			c.stallSec -= now - old
		case condEnv:
			by(&c.envTime, ratio)
		case condEngines:
			by(&c.engines, ratio)
		case condLimit:
			c.engineLimit = max(1, int(math.Round(old)))
		case condOthers:
			by(&c.otherWork, ratio)
		case condDepth:
			c.depth = max(1, int(math.Round(old)))
			c.admitted = max(c.depth, s.limit)
		case condPlaces:
			by(&c.workers, ratio)
		}
	}
	return c
}

// respread makes the slowest games, and groups, as slow beside typical ones as they were. Slow engines spread the games
// that they play, so that their being as fast as before takes the spread away.
func (p *replayModel) respread(s *stepModel, back []condition) {
	within, between := false, false
	for _, which := range back {
		spreads := which == condSpeed && !s.straggles
		within = within || which == condWithin || spreads
		between = between || which == condBetween || spreads
	}
	if within && s.old.known(condWithin) && s.now.or(condWithin, 0) > s.old[condWithin] {
		shorter := s.old[condWithin] / s.now[condWithin]
		for i := range p.groups {
			p.groups[i].shorterBy(shorter)
		}
	}
	if between && s.old.known(condBetween) && s.now.or(condBetween, 0) > s.old[condBetween] {
		var alone []float64
		for _, g := range p.groups[p.groupLoop:] {
			alone = append(alone, g.alone)
		}
		most := s.old[condBetween] * median(alone)
		for i := range p.groups {
			if g := &p.groups[i]; g.alone > most {
				g.shorterBy(most / g.alone)
			}
		}
	}
}

// shorterBy makes a group take only this part of its time, for the same work.
func (g *replayGroup) shorterBy(part float64) {
	g.alone, g.held, g.games = g.alone*part, g.held/part, g.games/part
}
