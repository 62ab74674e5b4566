package diagnosis

import (
	"slices"

	"github.com/millrace/millrace/internal/rollout"
)

// fleetMeans is the engines over the windows of some steps.
type fleetMeans struct {
	known     bool
	engines   float64
	slots     float64 // requests that the engines may hold in flight together; 0: not known
	inFlight  float64 // requests, over all engines
	slotShare float64
	busyShare float64
	queued    float64
}

// fleetOver averages the fleet's windows, weighted by their length.
func (l *ledger) fleetOver(positions []int) fleetMeans {
	var m fleetMeans
	total := 0.0
	for _, i := range positions {
		f := l.steps[i].view().Fleet
		if f.Engines <= 0 || f.WindowSec <= 0 {
			continue
		}
		total += f.WindowSec
		m.engines += f.WindowSec * f.Engines
		m.inFlight += f.WindowSec * f.Engines * f.InFlight
		m.slotShare += f.WindowSec * f.SlotShare
		m.busyShare += f.WindowSec * f.BusyShare
		m.queued += f.WindowSec * f.QueuedRequests
	}
	if total == 0 {
		return m
	}
	m.known = true
	for _, v := range []*float64{&m.engines, &m.inFlight, &m.slotShare, &m.busyShare, &m.queued} {
		*v /= total
	}
	m.slots = m.engines * l.slotsPerEngine(positions)
	return m
}

// slotsPerEngine is the in-flight limit of an engine, which the windows hold as a share.
func (l *ledger) slotsPerEngine(positions []int) float64 {
	var limits []float64
	for _, i := range positions {
		if f := l.steps[i].view().Fleet; f.SlotShare > 0 && f.InFlight > 0 {
			limits = append(limits, f.InFlight/f.SlotShare)
		}
	}
	return median(limits)
}

// work is the request-seconds of a group at engines.
func work(g *rollout.GroupView) float64 { return g.Usage.ExecSec }

// gameWork is the seconds of a group's episodes, which a worker plays one at a time per place.
func gameWork(g *rollout.GroupView) float64 {
	sum := 0.0
	for _, sec := range g.EpisodeSec {
		sum += sec
	}
	return sum
}

func batchWork(of func(*rollout.GroupView) float64) func(*step) float64 {
	return func(s *step) float64 {
		sum := 0.0
		groups := s.view().Groups
		for i := range groups {
			sum += of(&groups[i])
		}
		return sum
	}
}

// dropRate is how many groups were dropped for each one trained on.
func (l *ledger) dropRate(positions []int) float64 {
	if len(positions) < 2 {
		return 0
	}
	first, last := l.steps[positions[0]].view(), l.steps[positions[len(positions)-1]].view()
	trained := 0
	for _, i := range positions[1:] {
		trained += len(l.steps[i].view().Groups)
	}
	dropped := last.AtClaim.Dropped - first.AtClaim.Dropped
	return max(0, float64(dropped)) / max(1, float64(trained))
}

// quantile interpolates between the sorted values; 0 for none.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}
