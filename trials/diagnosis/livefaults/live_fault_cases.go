package main

import "time"

// liveCase is a run of the whole service, with what befalls it.
type liveCase struct {
	name       string
	engines    int
	engineArgs []string
	length     int    // steps; 0: 26
	bounds     string // of the buffer; empty: depth 2
	// at happens when a step's batch is there.
	at func(*site, int64)
	// also is how much longer a phase of the trainer takes.
	also func(step int64, phase string) time.Duration
}

func (c liveCase) steps() int {
	if c.length > 0 {
		return c.length
	}
	return 26
}

func (c liveCase) buffer() string {
	if c.bounds != "" {
		return c.bounds
	}
	return "{depth: 2, groups_per_step: 2, max_staleness: 4, on_stale: drop}"
}

// larger is batches of four groups, which keep two engines busy.
const larger = "{depth: 2, groups_per_step: 4, max_staleness: 4, on_stale: drop}"

// uncached is engines that a few dozen requests saturate, of 512 that they have slots for.
var uncached = []string{"--prefix-caching=false"}

// hitAt is the step at which most faults happen.
const hitAt = 9

// once is what happens at hitAt.
func once(do func(*site)) func(*site, int64) {
	return func(s *site, step int64) {
		if step == hitAt {
			do(s)
		}
	}
}

// from is a phase that takes longer from hitAt on.
func from(name string, longer time.Duration) func(int64, string) time.Duration {
	return func(step int64, phase string) time.Duration {
		if phase == name && step >= hitAt {
			return longer
		}
		return 0
	}
}

var cases = []liveCase{
	{name: "healthy", engines: 2},
	{name: "saturated", engines: 1, engineArgs: uncached,
		bounds: larger},
	{name: "all-engines-slow", engines: 2, at: once(func(s *site) {
		s.fault(0, "/sim/faults", `{"kind": "slow", "factor": 4}`)
		s.fault(1, "/sim/faults", `{"kind": "slow", "factor": 4}`)
	})},
	{name: "one-engine-slow", engines: 2, at: once(func(s *site) {
		s.fault(1, "/sim/faults", `{"kind": "slow", "factor": 8}`)
	})},
	{name: "engine-lost", engines: 2, engineArgs: uncached, bounds: larger,
		at: once(func(s *site) { s.kill(1) })},
	{name: "engine-lost-and-back", engines: 2, engineArgs: uncached, bounds: larger, length: 30,
		at: func(s *site, step int64) {
			switch step {
			case hitAt:
				s.kill(1)
			case hitAt + 8:
				_, err := s.startEngine(s.engines[1].port, uncached...)
				_ = err // the run shows whether it is back
			}
		}},
	{name: "engine-drained", engines: 2, engineArgs: uncached, bounds: larger, at: once(func(s *site) {
		s.operator("engine", "drain", s.engines[1].id())
	})},
	{name: "prefix-cache-off", engines: 1,
		bounds: "{depth: 2, groups_per_step: 3, max_staleness: 4, on_stale: drop}", at: once(func(s *site) {
			s.kill(0)
			_, err := s.startEngine(s.engines[0].port, uncached...)
			_ = err // the run shows whether it is back
		})},
	{name: "own-limit", engines: 2, at: once(func(s *site) {
		s.operator("run", "set", "live", "dispatch.max_in_flight_per_engine=2")
	})},
	{name: "depth-lowered", engines: 2, bounds: "{depth: 3, groups_per_step: 2, max_staleness: 4, on_stale: drop}",
		engineArgs: []string{"--speed", "0.3"},
		at:         once(func(s *site) { s.operator("run", "set", "live", "buffer.depth=1") })},
	{name: "checkpoint", engines: 2, length: 30, also: func(step int64, phase string) time.Duration {
		if phase == "checkpoint" && (step+1)%5 == 0 {
			return 2500 * time.Millisecond
		}
		return 0
	}},
	{name: "handover", engines: 2, also: from("wait", 2*time.Second)},
	{name: "train-slower", engines: 2, also: from("train", 2*time.Second)},
	{name: "publish-slow", engines: 2, also: from("publish", 2*time.Second)},
}
