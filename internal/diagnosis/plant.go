package diagnosis

import (
	"math"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// newPlant turns the whole record into what the recursion is replayed on.
func (q *inquiry) newPlant() (plant, bool) {
	all := q.ledger.all
	p := plant{admitted: q.admitted()}
	nowFrom := q.ledger.steps[q.now[0]].no
	drops := 1 + q.ledger.dropRate(q.now)
	groups := groupsBySeq(all)
	for i := range all {
		v := all[i].view()
		if all[i].no < nowFrom {
			p.groupLoop += len(v.Groups)
			p.stepLoop++
		}
		if v.Depth < 1 || len(v.Groups) == 0 {
			return p, false
		}
		p.depth = append(p.depth, max(1, min(v.Depth, q.fitted())))
		p.take = append(p.take, len(v.Groups))
		p.compute = append(p.compute, all[i].compute())
	}
	for _, g := range groups {
		p.work = append(p.work, drops*q.workOf(g))
		p.latency = append(p.latency, q.latency(g))
	}
	q.setCapacity(&p)
	target := min(p.depth[0], p.admitted+1) * p.take[0]
	p.first = target
	if v := all[0].view(); all[0].no == 0 {
		p.first = max(p.take[0], min(target, int(math.Round(v.ReadyDepth*float64(p.take[0])))))
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

// workOf is a group's work in the unit that the capacity is counted in.
func (q *inquiry) workOf(g *rollout.GroupView) float64 {
	if q.regime.Resource == WorkerSlots {
		return gameWork(g)
	}
	return work(g)
}

// setCapacity lays down the fleet's capacity over time, window by window, from the first launch on.
func (q *inquiry) setCapacity(p *plant) {
	perStep := q.ledger.mean(q.now, func(s *step) float64 {
		return batchWork(q.workOf)(s) * (1 + q.ledger.dropRate(q.now))
	})
	now := perStep / q.regime.P.Sec // what P was measured with
	if q.regime.Resource != WorkerSlots && q.fleet.engines > 0 {
		origin := firstLaunch(q.ledger.all)
		for i := range q.ledger.all {
			v := q.ledger.all[i].view()
			until := secondsBetween(origin, v.GrantedAt)
			if v.Fleet.Engines > 0 && until > 0 {
				p.capacity = append(p.capacity, now*v.Fleet.Engines/q.fleet.engines)
				p.until = append(p.until, until)
			}
		}
	}
	p.capacity = append(p.capacity, now)
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
