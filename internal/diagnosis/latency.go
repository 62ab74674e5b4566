package diagnosis

import (
	"fmt"
	"math"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
)

// promptStart is the share of its playing time that a group may stand unstarted and still not have queued.
const promptStart = 0.25

// measureLatency states how long a batch takes when nothing is in its way.
func (q *inquiry) measureLatency() {
	q.prompt = q.groupsArePrompt()
	q.delay = q.ledger.fixedDelay(q.account.full())
	how := "slowest group of a batch"
	if !q.prompt {
		how += ", without queueing"
	}
	latency := q.ledger.mean(q.now, q.batchLatency)
	q.regime.R = &Quantity{latency, Measured, how}
	q.regime.LatencyPD = &Quantity{latency / q.regime.Depth, Measured, fmt.Sprintf("latency / depth %v", q.regime.Depth)}
	if held, admitted := float64(min(q.setDepth(), q.fitted())), float64(q.admitted()); held > admitted {
		// Every admitted batch's way, and the work on the one that had to be completed first, take their turns.
		perBatch := (latency + q.regime.C.Sec) / (admitted + 1)
		q.regime.LatencyPD = &Quantity{perBatch, Measured, fmt.Sprintf("(latency + compute) / %v: max_staleness + 1", admitted+1)}
		if perBatch > 0 {
			q.regime.Depth = latency / perBatch
		}
	}
}

// groupsArePrompt reports whether groups neither queue for slots nor for workers: then the whole way from
// launch to ready is latency, the service's own delays included.
func (q *inquiry) groupsArePrompt() bool {
	way := q.ledger.mean(q.now, func(s *step) float64 { return meanOf(s, wholeWay) })
	return !q.account.full() && q.startGap() < promptStart*(way-q.startGap())
}

func (q *inquiry) startGap() float64 {
	return q.ledger.mean(q.now, func(s *step) float64 { return meanOf(s, startGap) })
}

// latency is a group's way from launch to ready, without queueing.
func (q *inquiry) latency(g *rollout.GroupView) float64 {
	if way := wholeWay(g); way > 0 && q.prompt {
		return way
	}
	return played(g, !q.account.full()) + q.delay
}

// batchLatency is the slowest group of a step's batch.
func (q *inquiry) batchLatency(s *step) float64 {
	slowest := 0.0
	groups := s.view().Groups
	for i := range groups {
		slowest = max(slowest, q.latency(&groups[i]))
	}
	return slowest
}

// meanOf is the mean over a step's groups.
func meanOf(s *step, of func(*rollout.GroupView) float64) float64 {
	sum := 0.0
	groups := s.view().Groups
	for i := range groups {
		sum += of(&groups[i])
	}
	return sum / max(1, float64(len(groups)))
}

func wholeWay(g *rollout.GroupView) float64 {
	return max(0, secondsBetween(g.Times.LaunchedAt, g.Times.ReadyAt))
}

// startGap is how long a group stood launched but not started.
func startGap(g *rollout.GroupView) float64 {
	return max(0, secondsBetween(g.Times.LaunchedAt, g.Times.StartedAt))
}

// played is a group's latency: its slowest episode, less that episode's time in the dispatch queue
// unless queueing counts. Without episodes it is the whole way from start to ready.
func played(g *rollout.GroupView, queueing bool) float64 {
	slowest := 0.0
	for i, sec := range g.EpisodeSec {
		if !queueing {
			sec -= at(g.QueueSec, i)
		}
		slowest = max(slowest, sec)
	}
	if slowest == 0 {
		slowest = max(0, secondsBetween(g.Times.StartedAt, g.Times.ReadyAt))
	}
	return slowest
}

// fixedDelay is what every group pays on its way: the smallest times seen from launch to start and
// from the last episode's end to ready, over the whole run, because the rest is queueing. A
// record that begins in the middle of a saturated run shows no group that did not queue.
func (l *ledger) fixedDelay(saturated bool) float64 {
	start, commit := math.Inf(1), math.Inf(1)
	for i := range l.all {
		for _, g := range l.all[i].view().Groups {
			t := g.Times
			if t.LaunchedAt.IsZero() || t.StartedAt.IsZero() || t.ReadyAt.IsZero() || len(g.EpisodeSec) == 0 {
				continue
			}
			start = min(start, max(0, secondsBetween(t.LaunchedAt, t.StartedAt)))
			commit = min(commit, max(0, secondsBetween(t.StartedAt, t.ReadyAt)-slices.Max(g.EpisodeSec)))
		}
	}
	if math.IsInf(start, 1) {
		return 0
	}
	if saturated && l.all[0].no > 0 {
		start = 0
	}
	return start + commit
}
