package diagnosis

import (
	"slices"

	"github.com/millrace/millrace/internal/rollout"
)

// lately is how many steps back the fleet's events are reported, whether they cost anything or not.
const lately = 10

// ofFleet reports whether an event is of the fleet.
func (ev Event) ofFleet() bool {
	return slices.Contains([]EventKind{EventEngineJoined, EventEngineLost, EventEngineLeft}, ev.Kind) || isSlowEngine(ev)
}

// fleetEvents are those of the last steps, and since the run became slower.
func fleetEvents(m *measurements) []FleetEvent {
	out := []FleetEvent{}
	from := m.all[len(m.all)-1].no - lately
	if m.rise != nil {
		from = min(from, m.rise.At-rollout.Step(m.mostOutstanding()))
	}
	for _, ev := range m.events {
		if no := m.stepDuring(ev.At); no >= max(from, 1) && ev.ofFleet() {
			out = append(out, FleetEvent{no, ev})
		}
	}
	return out
}
