package diagnosis

import (
	"time"

	"gonum.org/v1/gonum/floats"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/kit/units"

	"github.com/millrace/millrace/internal/rollout/steprecord"
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
func (h *history) fleetOver(positions []int) fleetMeans {
	var m fleetMeans
	total := 0.0
	for _, i := range positions {
		f := h.steps[i].view().Fleet
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
	m.slots = m.engines * h.slotsPerEngine(positions)
	return m
}

// slotsPerEngine is the in-flight limit of an engine, which the windows hold as a share.
func (h *history) slotsPerEngine(positions []int) float64 {
	var limits []float64
	for _, i := range positions {
		if f := h.steps[i].view().Fleet; f.SlotShare > 0 && f.InFlight > 0 {
			limits = append(limits, f.InFlight/f.SlotShare)
		}
	}
	return stat.Median(limits)
}

// enginesText is a mean number of engines in words.
func enginesText(n float64) string {
	if text := units.Number(n); text != "1" {
		return text + " engines"
	}
	return "1 engine"
}

// slotUse is how many of the engines' request slots are in use, and by which runs.
type slotUse struct {
	slots    float64 // that this run may fill: the engines' limits, or its own
	own      float64 // this run's requests in flight, by Little's law: work / step
	inFlight float64 // all requests in flight
	queued   float64
	share    float64 // of the slots in use
	memory   bool    // the engines' memory holds no more
	busy     float64 // share of the time in which engines have anything in flight
}

// slotUseOf compares two views of the requests in flight: the engines' samples, and this run's work over time, which
// includes the way to the engine and back. The larger one counts as the use.
func slotUseOf(m *measurements, stepSec float64, memory bool) slotUse {
	u := slotUse{slots: m.fleet.slots, queued: m.fleet.queued, memory: memory, busy: 1}
	if m.fleet.busyShare > 0 {
		u.busy = min(1, m.fleet.busyShare)
	}
	if limit := float64(m.in.Spec.Dispatch.MaxInFlightPerEngine); limit > 0 {
		u.slots = min(u.slots, m.fleet.engines*limit)
	}
	period := stepSec
	if interval, ok := m.arrivalInterval(); ok && !m.starving() {
		period = max(period, interval) // a buffer that drains gives more than the fleet makes
	}
	u.own = max(m.workPerBatch()/period, m.mean(m.present, (*step).heldAtClaim))
	u.inFlight = max(m.fleet.inFlight, u.own)
	if u.slots > 0 {
		u.share = min(1, u.inFlight/u.slots)
	}
	return u
}

// heldAtClaim is about how many requests the run's own groups in play held when a step was claimed: those that are
// dropped or cancelled later, or still go on, among them.
func (s *step) heldAtClaim() float64 {
	v := s.view()
	held, n := 0.0, 0.0
	for i := range v.Groups {
		g := &v.Groups[i]
		if span := secondsBetween(g.Times.StartedAt, g.Times.ReadyAt); span > 0 {
			held += g.Usage.ExecSec / span
			n++
		}
	}
	return float64(v.AtClaim.InFlight) * held / max(1, n)
}

// others is the requests in flight that are not this run's; 0 when its own are about all of them.
func (u slotUse) others() float64 {
	if u.own >= 0.8*u.inFlight {
		return 0
	}
	return u.inFlight - u.own
}

// mayHold is the requests that this run may have in flight, over all engines; 0: not known.
func (u slotUse) mayHold() float64 {
	slots := u.slots
	if u.queueing() || u.memory {
		slots = min(slots, u.inFlight/u.busy) // as many as are ever used, with requests waiting
	}
	return slots - u.others()
}

const (
	// fullSlots is the share of slots in use from which on the engines are the limit.
	fullSlots = 0.85
	// queueingSlots is the share from which on a standing queue shows that no more fits.
	queueingSlots = 0.70
)

// full reports whether the engines have no room for another request.
func (u slotUse) full() bool { return u.share >= fullSlots || u.queueing() || u.memory }

// queueing reports whether requests stand in line: some beside nearly full slots, or as many as are
// in flight whatever the slots say, because then something else withholds them.
func (u slotUse) queueing() bool {
	return u.share >= queueingSlots && u.queued >= 0.1*u.inFlight || u.queued > 0 && u.queued >= u.inFlight
}

// requestSec is a group's work at engines: the time that its requests were in flight, summed.
func requestSec(g *steprecord.GroupView) float64 { return g.Usage.ExecSec }

// gameSec is a group's work at workers: the time of its episodes, which a worker plays one at a time per place.
func gameSec(g *steprecord.GroupView) float64 { return floats.Sum(g.EpisodeSec) }

// batchSum sums of(group) over a step's batch.
func batchSum(of func(*steprecord.GroupView) float64) func(*step) float64 {
	return func(s *step) float64 {
		sum := 0.0
		groups := s.view().Groups
		for i := range groups {
			sum += of(&groups[i])
		}
		return sum
	}
}

// batchMean is the mean of of(group) over a step's batch.
func batchMean(of func(*steprecord.GroupView) float64) func(*step) float64 {
	sum := batchSum(of)
	return func(s *step) float64 { return sum(s) / max(1, float64(len(s.view().Groups))) }
}

// hasGroups reports whether the records say what the engines did for the present batches.
func (m *measurements) hasGroups() bool { return m.mean(m.present, batchSum(requestSec)) > 0 }

// workPerBatch is the request-seconds that the fleet spends on a batch, dropped groups included.
func (m *measurements) workPerBatch() float64 {
	return m.mean(m.present, batchSum(requestSec)) * (1 + m.dropRate(m.present))
}

// dropRate is how many groups were dropped for each one trained on.
func (h *history) dropRate(positions []int) float64 {
	if len(positions) < 2 {
		return 0
	}
	first, last := h.steps[positions[0]].view(), h.steps[positions[len(positions)-1]].view()
	trained := 0
	for _, i := range positions[1:] {
		trained += len(h.steps[i].view().Groups)
	}
	dropped := last.AtClaim.Dropped - first.AtClaim.Dropped
	return max(0, float64(dropped)) / max(1, float64(trained))
}

// arrivalInterval is the time in which the fleet delivered a batch's worth of groups, from the
// groups' own clocks: a check on P that shares no input with it.
func (m *measurements) arrivalInterval() (float64, bool) {
	if len(m.present) < 2 {
		return 0, false
	}
	from, to := m.present[0], m.present[len(m.present)-1]
	first, ok1 := meanArrival(m.steps[from].view().Groups)
	last, ok2 := meanArrival(m.steps[to].view().Groups)
	return last.Sub(first).Seconds() / float64(to-from), ok1 && ok2 && last.After(first)
}

// meanArrival is the middle of a batch's arrival.
func meanArrival(groups []steprecord.GroupView) (time.Time, bool) {
	if len(groups) == 0 {
		return time.Time{}, false
	}
	origin, sum := groups[0].Times.ReadyAt, 0.0
	for _, g := range groups {
		if g.Times.ReadyAt.IsZero() {
			return time.Time{}, false
		}
		sum += g.Times.ReadyAt.Sub(origin).Seconds()
	}
	return origin.Add(time.Duration(sum / float64(len(groups)) * float64(time.Second))), true
}
