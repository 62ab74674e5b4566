package diagnosis

import "math"

// stepModel is the step time that follows from conditions, max(C, P, R/D) with each term made of what it depends on.
// It is anchored on the steps to be explained: it gives their time exactly, and says what other conditions make of it.
type stepModel struct {
	now, old conditions
	// slower is by how much each condition that acts on a request's time made requests slower at the same load.
	slower    [conditionCount]float64
	straggles bool    // one game of each group, or one group of each batch, is much slower than the others
	sharing   float64 // power of the load that a request's time grows with: 0 not at all, 1 in proportion

	modelSec float64 // of a typical game: at engines
	restSec  float64 // and beside engines and environment
	delaySec float64 // of a group, between its launch and ready, beside being played

	slots   bool // the engines' slots are full
	workers bool // workers have no room for more games
	limit   int  // batches that may be outstanding beside the one that is trained on
	fitting int  // for which there is room in bytes
	scale   float64
	stepSec float64
}

// newStepModel is the model of the steps after, with what they were before.
func newStepModel(m *measurements, reg *regime, c *comparison) *stepModel {
	s := &stepModel{}
	s.partsOfAGame(m, c)
	return s.anchoredOn(m, reg, c)
}

// anchoredOn is the model with the conditions of a comparison.
func (s *stepModel) anchoredOn(m *measurements, reg *regime, c *comparison) *stepModel {
	s = &stepModel{
		now: c.now, old: c.old, modelSec: s.modelSec, restSec: s.restSec, delaySec: s.delaySec,
		slots: reg.slots.full(), workers: reg.Resource == WorkerSlots, limit: m.stalenessLimit(), fitting: m.bytesLimit(),
		scale: 1, stepSec: m.mean(c.after, (*step).seconds),
	}
	s.partsOfARequest(c, m.mean(c.before, (*step).seconds))
	if s.workers {
		s.now[condPlaces] = m.mean(c.after, batchSum(gameSec)) / s.stepSec
	}
	bound := s.bound(&s.now, 1)
	waits := s.stepSec - s.now.compute() - s.now.or(condHandover, 0)
	switch {
	case bound <= 0:
	case waits > minWaitShare*s.stepSec:
		s.scale = s.stepSec / bound
	default:
		s.scale = min(1, s.stepSec/bound)
	}
	return s
}

// partsOfAGame splits a typical game of the steps after.
func (s *stepModel) partsOfAGame(m *measurements, c *comparison) {
	games, modelSec, restSec, delay := 0.0, 0.0, 0.0, math.Inf(1)
	for _, i := range c.after {
		groups := m.steps[i].view().Groups
		for j := range groups {
			g := &groups[j]
			for k := range g.EpisodeSec {
				unqueued, env := g.UnqueuedSec(k), valueAt(g.EnvSec, k)
				model := valueAt(g.ModelSec, k)
				if len(g.ModelSec) == 0 {
					model = unqueued - env
				}
				games++
				modelSec += model
				restSec += unqueued - model - env
			}
			if len(g.EpisodeSec) == 0 {
				games++
				modelSec += groupPlaySec(g)
			}
			delay = min(delay, max(0, launchToReady(g)-groupPlaySec(g)))
		}
	}
	if games > 0 {
		s.modelSec, s.restSec = modelSec/games, restSec/games
	}
	if !math.IsInf(delay, 1) {
		s.delaySec = delay
	}
}

// partsOfARequest splits by how much a request takes longer into what made it so: more tokens first, as far as the
// tokens can have done it; then the engines' stalls; then their load, as far as the engines gave more for it; and what
// is left are slower engines. At the same kind of work an engine with more requests never gives less, so that one that
// gives less has become slower.
func (s *stepModel) partsOfARequest(c *comparison, beforeSec float64) {
	for i := range s.slower {
		s.slower[i] = 1
	}
	s.old[condSpeed], s.now[condSpeed] = 1, 1
	ratio := c.ratio(condRequestSec)
	s.straggles = c.straggles()
	if s.straggles { // of which the typical game knows nothing
		ratio *= c.ratio(condTypical)
	}
	if !c.differs(condRequestSec) || ratio <= 1 {
		return
	}
	left := ratio
	take := func(which condition, by float64) {
		s.slower[which] = max(1, min(by, left))
		left /= s.slower[which]
	}
	tokens := []condition{condCompletion, condUncached, condPrompt}
	whole, load := left, max(1, c.ratio(condInFlight))
	for _, which := range tokens {
		if c.differs(which) {
			take(which, c.ratio(which))
		}
	}
	// Where something else did more, tokens did something between nothing and all that they can have done.
	if left > (1+moved)*load && left > whole/left {
		left = whole
		for _, which := range tokens {
			if c.differs(which) {
				take(which, math.Sqrt(c.ratio(which)))
			}
		}
	}
	if c.differs(condStall) {
		serving := func(stall, stepSec float64) float64 { return max(0.05, 1-stall/stepSec) }
		take(condStall, serving(s.old[condStall], beforeSec)/serving(s.now[condStall], s.stepSec))
	}
	if by := c.memoryShortage(); by > 1 {
		take(condMemory, by)
	}
	if least := left / load; least > 1+moved {
		if c.crowded() {
			take(condSpeed, least)
		} else {
			take(condSpeed, left)
		}
	}
	if load > 1.1 && left > 1 {
		s.sharing = min(1, math.Log(left)/math.Log(load))
	}
	s.now[condSpeed] = s.slower[condSpeed]
}

// crowded reports whether an engine has more requests for a reason of its own: fewer engines, other runs, or games that
// ask more at once.
func (c *comparison) crowded() bool {
	return c.differs(condOthers) && c.now[condOthers] > c.old[condOthers] ||
		c.differs(condAtOnce) && c.now[condAtOnce] > (1+moved)*c.old[condAtOnce] ||
		c.differs(condEngines) && c.now[condEngines] < c.old[condEngines]
}

// seconds is the step time when some conditions are as they were before.
func (s *stepModel) seconds(before []condition) float64 {
	c, faster := s.now, 1.0
	for _, which := range before {
		s.putBack(&c, which)
		if which == condSpeed && !s.straggles { // engines that are slow spread the games that they play
			s.putBack(&c, condWithin)
			s.putBack(&c, condBetween)
		}
		faster /= s.slower[which]
	}
	return s.under(&c, faster)
}

// putBack makes one condition what it was.
func (s *stepModel) putBack(c *conditions, which condition) {
	if s.old.known(which) {
		c[which] = s.old[which]
	}
}

// under is the step time under conditions in which a request takes faster times as long at the same load. A request's
// time, the load and the step time depend on each other, and are found by turns.
func (s *stepModel) under(c *conditions, faster float64) float64 {
	sec, request := s.stepSec, 1.0
	for range 60 {
		next := max(c.compute()+c.or(condHandover, 0), s.scale*s.bound(c, request))
		slower := faster * math.Pow(max(1e-9, s.load(c, request, next)), s.sharing)
		if math.Abs(next/sec-1) < 1e-4 && math.Abs(slower/request-1) < 1e-4 {
			return next
		}
		sec, request = math.Sqrt(sec*next), math.Sqrt(request*slower)
	}
	return sec
}

// relative is a condition by what it is now; 1 where that is not known.
func (s *stepModel) relative(c *conditions, which condition) float64 {
	now := s.now.or(which, 1)
	if now <= 0 {
		return 1
	}
	return c.or(which, now) / now
}

// load is the requests in flight at an engine, by those now. By Little's law they are a batch's requests times their
// time, by the step's.
func (s *stepModel) load(c *conditions, request, sec float64) float64 {
	batch := 1.0
	for _, which := range []condition{condGroups, condPlayed, condGames, condRetries, condRequests} {
		batch *= s.relative(c, which)
	}
	others := s.others()
	own := (1 - others) * batch * request * s.stepSec / sec
	return (own + others*s.relative(c, condOthers)) / s.relative(c, condEngines)
}

// bound is what the games allow a step to take at least, when a request takes so many times as long as now.
func (s *stepModel) bound(c *conditions, request float64) float64 {
	requestSec := s.now.or(condRequestSec, 0) * request
	model := s.modelSec * s.relative(c, condRequests) * s.relative(c, condRetries) * request
	env := c.or(condEnv, 0) * c.or(condRequests, 1)
	game := model + env + s.restSec
	group := game*c.or(condWithin, 1) + s.delaySec
	latency := group * c.or(condBetween, 1) * s.relative(c, condPlayed)
	depth := min(int(math.Round(c.or(condDepth, 1))), s.fitting)
	term := latency / float64(max(1, min(depth, s.limit)))
	if depth > s.limit {
		term = (latency + c.compute()) / float64(s.limit+1)
	}
	if s.slots && c.known(condEngines) && c.known(condLimit) {
		work := requestSec * c.or(condRequests, 1) * c.or(condGames, 1) * c.or(condGroups, 1) * c.or(condPlayed, 1) *
			c.or(condRetries, 1)
		if slots := c[condEngines]*c[condLimit] - c.or(condOthers, 0); slots > 0 {
			term = max(term, work/slots)
		}
	}
	if s.workers {
		inPlay := c.or(condGames, 1) * c.or(condGroups, 1) * c.or(condPlayed, 1) * game
		term = max(term, inPlay/c.or(condPlaces, math.Inf(1)))
	}
	return term
}

// others is the share of the requests in flight that are not this run's, now.
func (s *stepModel) others() float64 {
	all := s.now.or(condInFlight, 0) * s.now.or(condEngines, 1)
	if all <= 0 {
		return 0
	}
	return min(0.95, s.now.or(condOthers, 0)/all)
}
