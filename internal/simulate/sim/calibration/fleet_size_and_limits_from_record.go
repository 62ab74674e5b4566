package calibration

import (
	"fmt"
	"math"

	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// fleet is how many engines there were, and what may be in one.
func (c *calibrator) fleet() {
	f := &c.setup.Fleet
	f.Engines = c.engines()
	f.Profile = c.options.Profile
	c.say("fleet.profile", f.Profile, Assumed, "the shape of the engines' step times; how fast they are is fitted")
	limits, slots := map[int]bool{}, map[int]bool{}
	for _, e := range c.record.Engines {
		limits[e.MaxInFlight] = true
		if e.AdapterSlots > 0 { // else they have not been seen
			slots[e.AdapterSlots] = true
		}
		if f.MaxInFlight == 0 || e.MaxInFlight < f.MaxInFlight {
			f.MaxInFlight = e.MaxInFlight
		}
		if f.MaxLoRAs == 0 || e.AdapterSlots > 0 && e.AdapterSlots < f.MaxLoRAs {
			f.MaxLoRAs = e.AdapterSlots
		}
	}
	if len(limits) > 1 || len(slots) > 1 {
		c.warn("the engines differ in their limits; the simulated ones all have the smallest")
	}
	if f.MaxInFlight > 0 {
		c.say("fleet.max_in_flight", fmt.Sprint(f.MaxInFlight), Measured, "limit of the recorded engines")
	}
	if f.MaxLoRAs > 0 {
		c.say("fleet.max_loras", fmt.Sprint(f.MaxLoRAs), Measured, "as the recorded engines say")
	}
	c.sequences()
}

// engines is how many engines served while the recorded steps were played.
func (c *calibrator) engines() int {
	var sum, window float64
	for _, s := range c.steps {
		sum, window = sum+s.Service.Fleet.Engines*s.Service.Fleet.WindowSec, window+s.Service.Fleet.WindowSec
	}
	mean := float64(len(c.record.Engines))
	if window > 0 && sum > 0 {
		mean = sum / window
	}
	n := max(1, int(math.Round(mean)))
	if math.Abs(mean-float64(n)) > 0.1 {
		c.warn("%.2f engines served in the mean; the simulation has %d all the time", mean, n)
	}
	from, to := c.steps[0].Service.GrantedAt, c.steps[len(c.steps)-1].Service.CompletedAt
	for _, e := range c.record.Events {
		body, ok := e.Body.(telemetry.EngineChanged)
		if !ok || e.At.Before(from) || e.At.After(to) {
			continue
		}
		switch body.State {
		case enginestate.EngineLost, enginestate.EngineDraining, enginestate.EngineQuarantined, enginestate.EngineReady:
			c.warn("engine %s became %s while the steps were played; the simulated fleet does not change", e.Engine,
				body.State)
		case enginestate.EngineStarting, enginestate.EngineLoading:
		}
	}
	c.say("fleet.engines", fmt.Sprint(n), Measured, "those that were ready")
	return n
}

// sequences is how many sequences an engine runs at once, which shows when others wait in it.
func (c *calibrator) sequences() {
	const name = "fleet.max_num_seqs"
	f := &c.setup.Fleet
	seen, waited, most, memory := 0, 0, 0.0, 0.0
	running := map[float64]int{} // samples in which others waited, by how many ran
	for _, e := range c.record.Events {
		sample, ok := e.Body.(telemetry.EngineSample)
		if !ok {
			continue
		}
		seen++
		most = max(most, sample.Load.Running)
		if sample.Load.Waiting >= 1 && sample.Load.Running >= 1 {
			waited++
			running[sample.Load.Running]++
			memory = max(memory, sample.Load.KVUsage)
		}
	}
	// A request that has just come waits for the step under way, too. An engine that is full runs the same number of
	// sequences, and never more, whenever others wait.
	full := running[most]
	const enough, memoryFull = 3, 0.95 // samples, and share
	switch {
	case seen == 0:
		c.say(name, "the profile's", Assumed, "the record has no samples of engines")
	case full < enough || 2*full < waited:
		c.say(name, "the profile's", Assumed,
			fmt.Sprintf("no engine was full: the most sequences ran while others waited in %d of %d samples", full, seen))
	case memory > memoryFull:
		c.say(name, "the profile's", Assumed, "the engines' memory was full before their sequences were")
	default:
		f.MaxNumSeqs = int(math.Round(most))
		c.say(name, fmt.Sprint(f.MaxNumSeqs), Measured,
			fmt.Sprintf("so many, and never more, ran while others waited, in %d of %d samples", full, seen))
	}
}
