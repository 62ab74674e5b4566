package faultsuite

import (
	"cmp"
	"fmt"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/simulate/sim"
)

// bases are the runs that most faults are tried on.
var bases = []struct {
	name string
	of   func(int) simRun
}{{"slots", slots}, {"filled", filled}}

func simEngineCases() []Case {
	var cases []Case
	for _, base := range bases {
		add := func(name, injected string, make func(n int) simRun, want ...causeName) {
			cases = append(cases, simCase(base.name+"-"+name, injected, make, want...))
		}
		add("all-slow", "all engines take 2.2 times as long, and nobody says so", func(n int) simRun {
			r := base.of(n)
			return r.hit(func(c *sim.Control) { c.Slow(2.2, false, c.All()...) })
		}, EngineSlow)
		add("half-slow-silent", "half of the engines take 5 times as long, and nobody says so", func(n int) simRun {
			r := base.of(n)
			return r.hit(func(c *sim.Control) { c.Slow(5, false, r.half()...) })
		}, EngineSlow)
		add("half-slow-noticed", "half of the engines take 5 times as long, and the keeper says so", func(n int) simRun {
			r := base.of(n)
			return r.hit(func(c *sim.Control) { c.Slow(5, true, r.half()...) })
		}, EngineSlow)
		add("quarter-slow", "a quarter of the engines takes 12 times as long, where engines have little to spare",
			func(n int) simRun {
				r := base.of(n).set(func(s *sim.Setup) { s.Fleet.TimeFactor = 1.2 })
				return r.hit(func(c *sim.Control) { c.Slow(12, false, r.lastEngines(r.Fleet.Engines/4+1)...) })
			}, EngineSlow)
		add("half-lost", "half of the engines are lost", func(n int) simRun {
			r := base.of(n)
			return r.hit(func(c *sim.Control) { c.Lose(r.half()...) })
		}, EngineLost)
		add("half-lost-deep", "half of the engines are lost behind a buffer of 5 batches", func(n int) simRun {
			r := base.of(n).depth(5).until(50)
			return r.hit(func(c *sim.Control) { c.Lose(r.half()...) })
		}, EngineLost)
		add("all-slow-deep", "all engines take 2.2 times as long behind a buffer of 4 batches", func(n int) simRun {
			return base.of(n).depth(4).until(50).hit(func(c *sim.Control) { c.Slow(2.2, false, c.All()...) })
		}, EngineSlow)
		add("drained", "an operator drains half of the engines", func(n int) simRun {
			r := base.of(n)
			return r.hit(func(c *sim.Control) { c.Drain(r.half()...) })
		}, ScaleDown)
		add("lost-and-back", "most of the engines are lost for some 10 steps", func(n int) simRun {
			r := base.of(n)
			most := r.lastEngines(r.Fleet.Engines * 3 / 4)
			return r.at(10, func(c *sim.Control) { c.Lose(most...) }).at(20, func(c *sim.Control) { c.Return(most...) })
		}, EngineLost, EngineBack)
		add("load-stalls", "every publication stalls each engine for 60 s before", func(n int) simRun {
			r := base.of(n).set(func(s *sim.Setup) {
				s.Trainer.PublishInBackground, s.Buffer.MaxStaleness = true, 4
			})
			return r.hit(func(c *sim.Control) { c.StallLoads(seconds(60).Std()) })
		}, AdapterLoad)
		add("too-few", "a batch takes the engines twice the trainer's time, from the start", func(n int) simRun {
			return base.of(n).set(func(s *sim.Setup) { s.Fleet.TimeFactor = 2.7 })
		}, Throughput)
		add("too-few-deep", "the same with depth 4", func(n int) simRun {
			return base.of(n).depth(4).set(func(s *sim.Setup) { s.Fleet.TimeFactor = 2.7 })
		}, Throughput)
		add("slow-healed", "all engines take 3 times as long for ten steps", func(n int) simRun {
			r := base.of(n).at(8, func(c *sim.Control) { c.Slow(3, false, c.All()...) })
			return r.at(18, func(c *sim.Control) { c.Slow(1, false, c.All()...) })
		}, EngineSlow)
		add("slow-drifts", "all engines take 6 % of the first time longer with every step", func(n int) simRun {
			r := base.of(n)
			for step := range rollout.Step(playedSteps) {
				r = r.at(step, func(c *sim.Control) { c.Slow(1+0.06*float64(step), false, c.All()...) })
			}
			return r
		}, EngineSlow)
		add("other-run", "another run keeps the engines busy", func(n int) simRun {
			return base.of(n).hit(func(c *sim.Control) {
				othersAsk(c, 8*n*cmp.Or(c.Setup().Fleet.MaxInFlight, sim.DefaultMaxInFlight), 4000, 250)
			})
		}, OtherWork)
	}
	for _, n := range []int{1, 2, 3} {
		cases = append(cases, simCase(fmt.Sprintf("too-few-%d-engines", n), "so few engines, on 48 slots each",
			func(scale int) simRun {
				return slots(scale).set(func(s *sim.Setup) {
					s.Fleet.Engines = n * scale
					s.Fleet.MaxNumSeqs, s.Fleet.MaxInFlight = 48, 48
					s.Trainer.Train = seconds(20)
				})
			}, Throughput))
	}
	return append(cases,
		simCase("cold-engines", "three of four engines join 900 s after the start", func(n int) simRun {
			return slots(n).set(func(s *sim.Setup) {
				s.Fleet.Engines = n
				s.Fleet.ColdStart = seconds(900)
				s.Trainer.Train, s.Trainer.Publish = seconds(65), seconds(3)
				for range 3 * n {
					s.Fleet.Events = append(s.Fleet.Events, sim.FleetEvent{At: seconds(1), Kind: sim.AddEngine})
				}
			})
		}, ColdEngines),
		simCase("few-adapter-slots", "engines have one adapter in a batch, and games of several versions are played",
			func(n int) simRun {
				return slots(n).depth(4).set(func(s *sim.Setup) {
					s.Fleet.MaxLoRAs, s.Fleet.Engines, s.Fleet.TimeFactor = 1, n, 0.45
				})
			}, AdapterSlots),
		simCase("half-slow-always", "half of the engines take 3 times as long, from the start", func(n int) simRun {
			r := slots(n)
			return r.at(0, func(c *sim.Control) { c.Slow(3, false, r.half()...) })
		}, EngineSlow),
		simCase("long-all-slow", "all engines take 3 times as long, where games are long", func(n int) simRun {
			return long(n).hit(func(c *sim.Control) { c.Slow(3, false, c.All()...) })
		}, EngineSlow),
		simCase("tiny-too-few", "a batch takes the engines twice the trainer's time; 6 steps", func(n int) simRun {
			return slots(n).until(6).set(func(s *sim.Setup) { s.Fleet.TimeFactor = 2.7 })
		}, Throughput),
		simCase("tiny-half-lost", "half of the engines lost in step 3 of 9", func(n int) simRun {
			r := slots(n).until(9)
			return r.at(3, func(c *sim.Control) { c.Lose(r.half()...) })
		}, EngineLost),
	)
}
