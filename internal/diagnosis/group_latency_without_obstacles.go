package diagnosis

import (
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// promptStart is the share of its playing time that a group may stand unstarted and still not have queued.
const promptStart = 0.25

// groupLatency derives from a group's timeline its latency without obstacles.
type groupLatency struct {
	prompt    bool // groups queue for nothing: the whole time from launch to ready is latency
	fullSlots bool // time in the dispatch queue is queueing for a slot, and no latency
}

func groupLatencyOf(m *measurements, slots slotUse) groupLatency {
	full := slots.full()
	return groupLatency{prompt: !full && m.startsPromptly(), fullSlots: full}
}

// startsPromptly reports whether groups do not stand unstarted for want of slots or of workers.
func (m *measurements) startsPromptly() bool {
	return m.startGap() < promptStart*(m.mean(m.present, batchMean(launchToReady))-m.startGap())
}

// startGap is how long a group stands launched but not started.
func (m *measurements) startGap() float64 { return m.mean(m.present, batchMean(launchToStart)) }

// of is one group's latency.
func (l groupLatency) of(g *steprecord.GroupView) float64 {
	before, after := l.delays(g)
	return before + l.played(g) + after
}

// played is how long a group is played, its time in the dispatch queue left out where slots are short.
func (l groupLatency) played(g *steprecord.GroupView) float64 { return played(g, !l.fullSlots) }

// delays are a group's delays before and after its play, without obstacles.
func (l groupLatency) delays(g *steprecord.GroupView) (before, after float64) {
	if sec := launchToReady(g); sec > 0 && l.prompt {
		before = min(sec, launchToStart(g))
		after = max(0, sec-before-l.played(g))
	}
	return before, after
}

// ofBatch is the latency of the slowest group of a step's batch.
func (l groupLatency) ofBatch(s *step) float64 {
	slowest := 0.0
	groups := s.view().Groups
	for i := range groups {
		slowest = max(slowest, l.of(&groups[i]))
	}
	return slowest
}

func launchToReady(g *steprecord.GroupView) float64 {
	return max(0, units.SecondsBetween(g.Times.LaunchedAt, g.Times.ReadyAt))
}

func launchToStart(g *steprecord.GroupView) float64 {
	return max(0, units.SecondsBetween(g.Times.LaunchedAt, g.Times.StartedAt))
}

// played is how long a group is played: its slowest game, without its time in the dispatch queue unless queueing
// counts. Without games it is the whole time from start to ready.
func played(g *steprecord.GroupView, queueing bool) float64 {
	slowest := 0.0
	for i, sec := range g.EpisodeSec {
		if !queueing {
			sec = g.UnqueuedSec(i)
		}
		slowest = max(slowest, sec)
	}
	if slowest == 0 {
		slowest = max(0, units.SecondsBetween(g.Times.StartedAt, g.Times.ReadyAt))
	}
	return slowest
}
