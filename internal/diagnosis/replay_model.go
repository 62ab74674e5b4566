package diagnosis

import (
	"math"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// replayModel is what the recursion is replayed on: the groups and steps as recorded, and what happens
// after the record's end, which is its last level over and over.
//
// Groups are served in the order of their launch by a fleet that works on one at a time with all
// of its capacity, and none is ready sooner than its own latency after its launch. That is the
// pace of any oldest-first fleet and it gives max(C, P, R/D) exactly; what it smooths over is the
// last wave of groups that does not fill the slots.
type replayModel struct {
	work      []float64 // of each group, in the order of launch
	latency   []float64 // of each group
	groupLoop int       // first group of the last level; from the end on the groups repeat from here
	compute   []float64 // of each step
	stepLoop  int       // first step of the last level
	depth     []int     // of each step
	take      []int     // groups of each step
	capacity  []float64 // work done per second, by window
	until     []float64 // end of each window; the last capacity lasts
	first     int       // groups ready when step 0 may begin
	// stalenessLimit is the batches that staleness lets be outstanding beside the one being trained on; between steps
	// it is one more.
	stalenessLimit int
}

// newReplayModel is the whole record as a model; false when the record does not hold what it takes.
func newReplayModel(m *measurements, reg *regime) (replayModel, bool) {
	p := replayModel{stalenessLimit: m.stalenessLimit()}
	presentFrom := m.steps[m.present[0]].no
	played := 1 + m.dropRate(m.present) // groups for each one trained on
	for i := range m.all {
		v := m.all[i].view()
		if m.all[i].no < presentFrom {
			p.groupLoop += len(v.Groups)
			p.stepLoop++
		}
		if v.Depth < 1 || len(v.Groups) == 0 {
			return p, false
		}
		p.depth = append(p.depth, max(1, min(v.Depth, m.bytesLimit())))
		p.take = append(p.take, len(v.Groups))
		p.compute = append(p.compute, m.all[i].compute())
	}
	work := reg.capacityUnit()
	for _, g := range groupsBySeq(m.all) {
		p.work = append(p.work, played*work(g))
		p.latency = append(p.latency, reg.latency.of(g))
	}
	p.capacity, p.until = capacityWindows(m, reg)
	target := min(p.depth[0], p.stalenessLimit+1) * p.take[0]
	p.first = target
	if first := &m.all[0]; first.no == 0 {
		ready := int(math.Round(first.view().ReadyDepth * float64(p.take[0])))
		p.first = max(p.take[0], min(target, ready))
	}
	return p, p.groupLoop < len(p.work) && p.stepLoop < len(p.compute)
}

func groupsBySeq(steps []step) []*rollout.GroupView {
	var groups []*rollout.GroupView
	for i := range steps {
		v := steps[i].view()
		for j := range v.Groups {
			groups = append(groups, &v.Groups[j])
		}
	}
	slices.SortStableFunc(groups, func(a, b *rollout.GroupView) int { return int(a.Seq - b.Seq) })
	return groups
}

// capacityUnit is a group's work in the unit that the regime counts capacity in.
func (reg *regime) capacityUnit() func(*rollout.GroupView) float64 {
	if reg.Resource == WorkerSlots {
		return gameSec
	}
	return requestSec
}

// capacityWindows is the fleet's capacity over time, window by window, from the first launch on.
func capacityWindows(m *measurements, reg *regime) (capacity, until []float64) {
	played := 1 + m.dropRate(m.present)
	batch := batchSum(reg.capacityUnit())
	now := m.mean(m.present, func(s *step) float64 { return batch(s) * played }) / reg.P.Sec // what P was measured with
	if reg.Resource != WorkerSlots && m.fleet.engines > 0 {
		origin := firstLaunch(m.all)
		for i := range m.all {
			v := m.all[i].view()
			end := secondsBetween(origin, v.GrantedAt)
			if v.Fleet.Engines > 0 && end > 0 {
				capacity = append(capacity, now*v.Fleet.Engines/m.fleet.engines)
				until = append(until, end)
			}
		}
	}
	return append(capacity, now), until
}

// firstLaunch is when the run's first group was asked for: the replay's time 0.
func firstLaunch(steps []step) time.Time {
	var first time.Time
	for i := range steps {
		for _, g := range steps[i].view().Groups {
			if t := g.Times.LaunchedAt; !t.IsZero() && (first.IsZero() || t.Before(first)) {
				first = t
			}
		}
	}
	return first
}
