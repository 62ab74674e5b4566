package diagnosis

import (
	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/kit/units"
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
