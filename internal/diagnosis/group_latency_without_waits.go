package diagnosis

import (
	"fmt"
	"math"
	"slices"

	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// promptStart is the share of its playing time that a group may stand unstarted and still not have queued.
const promptStart = 0.25

// groupLatency derives from a group's timeline its latency without obstacles.
type groupLatency struct {
	prompt    bool // groups queue for nothing: the whole time from launch to ready is latency
	fullSlots bool // time in the dispatch queue is queueing for a slot, and no latency
	// startSec and commitSec are every group's delays from its launch to its start, and from its last game's end until
	// it is ready.
	startSec, commitSec float64
}

func groupLatencyOf(m *measurements, slots slotUse) groupLatency {
	full := slots.full()
	l := groupLatency{prompt: !full && m.startsPromptly(), fullSlots: full}
	l.startSec, l.commitSec = m.fixedDelays(full)
	return l
}

// startsPromptly reports whether groups do not stand unstarted for want of slots or of workers.
func (m *measurements) startsPromptly() bool {
	return m.startGap() < promptStart*(m.mean(m.present, batchMean(launchToReady))-m.startGap())
}

// startGap is how long a group stands launched but not started.
func (m *measurements) startGap() float64 { return m.mean(m.present, batchMean(launchToStart)) }

// of is one group's latency.
func (l groupLatency) of(g *steprecord.GroupView) float64 {
	if sec := launchToReady(g); sec > 0 && l.prompt {
		return sec
	}
	return l.played(g) + l.startSec + l.commitSec
}

// played is how long a group is played, its time in the dispatch queue left out where slots are short.
func (l groupLatency) played(g *steprecord.GroupView) float64 { return played(g, !l.fullSlots) }

// delays are a group's delays before and after its play, without obstacles.
func (l groupLatency) delays(g *steprecord.GroupView) (before, after float64) {
	if sec := launchToReady(g); sec > 0 && l.prompt {
		before = min(sec, launchToStart(g))
		return before, max(0, sec-before-l.played(g))
	}
	return l.startSec, l.commitSec
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
	return max(0, secondsBetween(g.Times.LaunchedAt, g.Times.ReadyAt))
}

func launchToStart(g *steprecord.GroupView) float64 {
	return max(0, secondsBetween(g.Times.LaunchedAt, g.Times.StartedAt))
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
		slowest = max(0, secondsBetween(g.Times.StartedAt, g.Times.ReadyAt))
	}
	return slowest
}

// fixedDelays are every group's delays beside playing: the smallest times from launch to start and from the last
// episode's end to ready, over the whole run; anything above is queueing. A record that begins in the middle of a
// saturated run has no group without queueing.
func (h *history) fixedDelays(saturated bool) (start, commit float64) {
	start, commit = math.Inf(1), math.Inf(1)
	for i := range h.all {
		for _, g := range h.all[i].view().Groups {
			t := g.Times
			if t.LaunchedAt.IsZero() || t.StartedAt.IsZero() || t.ReadyAt.IsZero() || len(g.EpisodeSec) == 0 {
				continue
			}
			start = min(start, max(0, secondsBetween(t.LaunchedAt, t.StartedAt)))
			commit = min(commit, max(0, secondsBetween(t.StartedAt, t.ReadyAt)-slices.Max(g.EpisodeSec)))
		}
	}
	if math.IsInf(start, 1) {
		return 0, 0
	}
	if saturated && h.all[0].no > 0 {
		start = 0
	}
	return start, commit
}

// slowestEpisode is the position of a group's longest episode; -1: none is recorded.
func slowestEpisode(g *steprecord.GroupView) int {
	longest := -1
	for i, sec := range g.EpisodeSec {
		if longest < 0 || sec > g.EpisodeSec[longest] {
			longest = i
		}
	}
	return longest
}

// latencyTerms is R, R/D, and the depth D that R/D stands for. held is the depth without the bound by staleness.
func latencyTerms(m *measurements, l groupLatency, computeSec, held float64) (r, perDepth *Quantity, depth float64) {
	how := "slowest group of a batch"
	if !l.prompt {
		how += ", without queueing"
	}
	sec := m.mean(m.present, l.ofBatch)
	r = &Quantity{sec, Measured, how}
	limit := float64(m.stalenessLimit())
	if float64(min(m.setDepth(), m.bytesLimit())) <= limit {
		return r, &Quantity{sec / held, Measured, fmt.Sprintf("latency / depth %v", held)}, held
	}
	// Every admitted batch's latency, and the work on the one that had to be completed first, take turns.
	perBatch := (sec + computeSec) / (limit + 1)
	perDepth = &Quantity{perBatch, Measured, fmt.Sprintf("(latency + compute) / %v: max_staleness + 1", limit+1)}
	if perBatch > 0 {
		return r, perDepth, sec / perBatch
	}
	return r, perDepth, held
}
