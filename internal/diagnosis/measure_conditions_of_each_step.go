package diagnosis

import (
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/floats"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// condition is one property by which two stretches of a run may differ.
type condition int

// The conditions. The step time of a run follows from them.
const (
	// Seconds of the trainer's phases, per step.
	condLoad condition = iota
	condRef
	condTrain
	condPublish
	condCheckpoint
	condOther

	condHandover   // seconds from a batch being ready to the trainer having it
	condGroups     // groups in a batch
	condPlayed     // groups played for each one trained on
	condGames      // games of a group
	condRetries    // tokens generated for each one that was needed
	condRequests   // requests of a game
	condPrompt     // prompt tokens of a request
	condUncached   // share of the prompt tokens that no cache held
	condCompletion // completion tokens of a request
	condEnv        // seconds of a game inside the environment
	condWithin     // slowest game of a group, for a typical one of 1
	condBetween    // slowest group of a batch, for a typical one of 1

	condEngines // ready engines
	condLimit   // requests that an engine may have in flight
	condOthers  // requests in flight that are not this run's
	condStall   // seconds per step in which an engine loads adapters
	condMemory  // tokens that an engine's KV cache has room for
	condSpeed   // seconds per token at a given load, as a multiple of what it was
	condDepth   // batches that may be outstanding

	condRequestSec // seconds of a request at its engine. It follows from others, and is never restored by itself
	condInFlight   // requests of any run in flight at an engine; follows, too
	condAtOnce     // requests of a game at engines at once, while it has any there
	condCrowding   // the same for each request that the engine works on, those that wait inside it included; follows, too

	conditionCount
)

// conditions is the value of each condition over some steps; NaN where the records do not tell.
type conditions [conditionCount]float64

// unknownConditions tells nothing.
func unknownConditions() conditions {
	var c conditions
	for i := range c {
		c[i] = math.NaN()
	}
	return c
}

// known reports whether the records tell a condition.
func (c *conditions) known(f condition) bool { return !math.IsNaN(c[f]) }

// or is one condition, or another value where it is not known.
func (c *conditions) or(f condition, otherwise float64) float64 {
	if c.known(f) {
		return c[f]
	}
	return otherwise
}

// stepConditions measures the conditions of each step, by position in history.steps: its batch, and the fleet while the
// trainer waited for it or worked.
func stepConditions(m *measurements) []conditions {
	all := make([]conditions, len(m.steps))
	own := requestsInFlight(m.all)
	counted := slices.ContainsFunc(m.steps, func(s step) bool { return s.view().AtClaim.Dropped > 0 })
	for i := range m.steps {
		s := &m.steps[i]
		c := unknownConditions()
		c.ofTrainer(m, s)
		c.ofBatch(s)
		if n := len(s.view().Groups); n > 0 && i > 0 { // what was dropped before the first step is not known
			c[condPlayed] = 1 + float64(droppedBefore(m, i, counted))/float64(n)
		}
		from, to := m.fleetWindow(i)
		c.ofFleet(m, s, from, to, own)
		c.ofMemory(s)
		all[i] = c
	}
	return all
}

// ofTrainer is the trainer's phases and the way of the batch to it.
func (c *conditions) ofTrainer(m *measurements, s *step) {
	for which, at := range phaseOf {
		c[which] = s.phases[at]
	}
	c[condHandover] = s.waitByPlace()[slices.Index(places(), PlaceHandover)]
	if m.heldBack(s) {
		c[condHandover] = 0
	}
	if d := s.view().Depth; d > 0 {
		c[condDepth] = float64(d)
	}
}

// heldBack reports whether a step's batch was kept from a trainer that waited, though enough groups were ready.
func (m *measurements) heldBack(s *step) bool {
	v := s.view()
	return m.in.Spec.Buffer.OnStale == runspec.WaitStale && v.GroupsPerStep > 0 &&
		v.AtClaim.Ready > int64(v.GroupsPerStep)
}

// ofBatch measures the groups of the batch.
func (c *conditions) ofBatch(s *step) {
	groups := s.view().Groups
	if len(groups) == 0 {
		return
	}
	var use rollout.Usage
	games, envSec, modelSec := 0.0, 0.0, 0.0
	for i := range groups {
		g := &groups[i]
		use = use.Add(g.Usage)
		games += float64(len(g.EpisodeSec))
		envSec += floats.Sum(g.EnvSec)
		modelSec += floats.Sum(g.ModelSec)
	}
	c[condGroups] = float64(len(groups))
	if games > 0 {
		c[condGames] = games / float64(len(groups))
		c[condEnv] = envSec / games
	}
	if modelSec > 0 {
		c[condAtOnce] = use.ExecSec / modelSec
	}
	requests := float64(use.Requests)
	if requests == 0 {
		requests = games // a game without counted requests is one long request
	}
	if requests > 0 && use.ExecSec > 0 {
		c[condRequestSec] = use.ExecSec / requests
	}
	if use.Requests > 0 && games > 0 {
		c[condRequests] = requests / games
		c[condEnv] = envSec / requests
	}
	if use.InputTokens > 0 && use.Requests > 0 {
		c[condPrompt] = float64(use.InputTokens) / requests
		c[condUncached] = 1 - float64(use.CachedTokens)/float64(use.InputTokens)
	}
	if use.OutputTokens > 0 && use.Requests > 0 {
		c[condCompletion] = float64(use.OutputTokens) / requests
		c[condRetries] = 1 + float64(use.RepeatedTokens)/float64(use.OutputTokens)
	}
	c[condWithin], c[condBetween] = tailsOf(groups)
}

// tailsOf is the slowest game of a group by a typical one, and the slowest group of a batch by a typical one.
func tailsOf(groups []steprecord.GroupView) (within, between float64) {
	within, between = math.NaN(), math.NaN()
	var inGroup, played []float64
	for i := range groups {
		g := &groups[i]
		if len(g.EpisodeSec) >= 3 {
			if typical := stat.Median(g.EpisodeSec); typical > 0 {
				inGroup = append(inGroup, slices.Max(g.EpisodeSec)/typical)
			}
		}
		if sec := groupPlaySec(g); sec > 0 {
			played = append(played, sec)
		}
	}
	if len(inGroup) > 0 {
		within = stat.Median(inGroup)
	}
	if len(played) >= 3 {
		between = slices.Max(played) / stat.Median(played)
	}
	return within, between
}

// groupPlaySec is from a group's first request to its last game's end.
func groupPlaySec(g *steprecord.GroupView) float64 {
	if len(g.EpisodeSec) > 0 {
		return slices.Max(g.EpisodeSec)
	}
	return max(0, units.SecondsBetween(g.Times.StartedAt, g.Times.ReadyAt))
}

// droppedBefore is how many groups were dropped between the claim of the step before and a step's own.
func droppedBefore(m *measurements, i int, counted bool) int64 {
	if i == 0 {
		return 0
	}
	before, now := m.steps[i-1].view(), m.steps[i].view()
	if counted {
		return max(0, now.AtClaim.Dropped-before.AtClaim.Dropped)
	}
	n := int64(0)
	for _, d := range m.in.Drops {
		if d.At.After(before.GrantedAt) && !d.At.After(now.GrantedAt) {
			n++
		}
	}
	return n
}

// fleetWindow is the time that the engine means of a step cover: since the claim before.
func (m *measurements) fleetWindow(i int) (from, to time.Time) {
	v := m.steps[i].view()
	to = v.GrantedAt
	if v.Fleet.WindowSec > 0 {
		return to.Add(-seconds(v.Fleet.WindowSec)), to
	}
	if i > 0 {
		return m.steps[i-1].view().GrantedAt, to
	}
	return v.FirstAskedAt, to
}

// ofFleet is the engines over a window, and who used them.
func (c *conditions) ofFleet(m *measurements, s *step, from, to time.Time, own *rateOverTime) {
	f := s.view().Fleet
	mine := max(own.mean(from, to)*c.or(condPlayed, 1), s.heldAtClaim())
	known := f.Engines > 0 && f.WindowSec > 0
	engines := 1.0
	if known {
		engines = f.Engines
		c[condEngines] = f.Engines
		if f.SlotShare > 0 && f.InFlight > 0 {
			c[condLimit] = f.InFlight / f.SlotShare
			if own := m.ownLimitAt(from); own > 0 {
				c[condLimit] = min(c[condLimit], own)
			}
		}
		c[condOthers] = 0
		if others := f.InFlight*f.Engines - mine; others > otherShare*f.InFlight*f.Engines {
			c[condOthers] = others
		}
		mine = max(mine, f.InFlight*f.Engines)
	}
	// The load under which the batch was played, which may have been long before.
	if began, ended := playedDuring(s.view().Groups); ended.After(began) {
		if playing := own.mean(began, ended) * c.or(condPlayed, 1); playing > 0 {
			c[condInFlight] = max(playing+c.or(condOthers, 0), 0) / engines
		}
	} else if mine > 0 {
		c[condInFlight] = mine / engines
	}
	if m.in.Loads != nil && to.After(from) {
		c[condStall] = m.loading.mean(from, to) / engines * s.wall
	}
}

// playedDuring is the time from the first request of a batch to its last game's end.
func playedDuring(groups []steprecord.GroupView) (began, ended time.Time) {
	for i := range groups {
		t := groups[i].Times
		if !t.StartedAt.IsZero() && (began.IsZero() || t.StartedAt.Before(began)) {
			began = t.StartedAt
		}
		if t.ReadyAt.After(ended) {
			ended = t.ReadyAt
		}
	}
	if began.IsZero() {
		return ended, ended
	}
	return began, ended
}

// otherShare is the least share of the requests in flight that is ascribed to others. Below it, the two ways of
// counting may just differ.
const otherShare = 0.25

// requestsInFlight is how many of the run's own requests were in flight over time, from the groups' timelines: a group
// holds as many as make its time at engines over its time of play. It is coarser than engineLoads, which follow single
// games, and of all steps, where engineLoads are of the latest.
func requestsInFlight(steps []step) *rateOverTime {
	var held []stretch
	for i := range steps {
		groups := steps[i].view().Groups
		for j := range groups {
			t := groups[j].Times
			if span := units.SecondsBetween(t.StartedAt, t.ReadyAt); span > 0 && groups[j].Usage.ExecSec > 0 {
				held = append(held, stretch{t.StartedAt, t.ReadyAt, groups[j].Usage.ExecSec / span})
			}
		}
	}
	return integrated(held)
}
