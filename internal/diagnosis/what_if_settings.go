package diagnosis

import (
	"fmt"
	"math"

	"github.com/millrace/millrace/internal/rollout"
)

// settingChanges are those that need no hardware, where the record shows what they would save.
func settingChanges(m *measurements, reg *regime) []whatIfChange {
	var out []whatIfChange
	for _, propose := range []func(*measurements, *regime) (whatIfChange, bool){
		noRefills, noStaleDrops, withoutSlowestGame, noAdapterStalls, ownLimitRaised, fewerInFlight, moreMemory,
		backgroundPublication, fewerGroups,
	} {
		if c, worth := propose(m, reg); worth && !refused(m, c.command) {
			c.onlyHelp = true
			out = append(out, c)
		}
	}
	return out
}

// lostTo is the part of the groups played that was dropped for a reason.
func lostTo(m *measurements, code rollout.Code) float64 {
	d := dropsOf(m)
	rate := m.dropRate(m.present)
	if d.all == 0 || rate == 0 {
		return 0
	}
	return rate / (1 + rate) * float64(d.byCode[code]) / float64(d.all)
}

// noRefills trains on groups without reward variance instead of playing others in their place.
func noRefills(m *measurements, _ *regime) (whatIfChange, bool) {
	lost := lostTo(m, rollout.CodeZeroVariance)
	return whatIfChange{name: "groups without reward variance kept", command: setCommand(m, "group.zero_variance=keep"),
		note: "batches hold groups of which nothing is learnt", change: change{games: 1 - lost}}, lost >= minWaitShare
}

// noStaleDrops trains on what is dropped as stale.
func noStaleDrops(m *measurements, _ *regime) (whatIfChange, bool) {
	lost := lostTo(m, rollout.CodeStale)
	return whatIfChange{name: "stale groups kept", command: setCommand(m, "buffer.on_stale=keep"), staler: true,
		change: change{games: 1 - lost}}, lost >= minWaitShare
}

// withoutSlowestGame completes groups without their slowest game.
func withoutSlowestGame(m *measurements, _ *regime) (whatIfChange, bool) {
	samples, least := m.in.Spec.Group.Samples, m.in.Spec.Group.MinSamples
	tail := m.mean(m.present, batchMean(slowestGameTail))
	return whatIfChange{
		name:    fmt.Sprintf("%d of %d games complete a group", samples-1, samples),
		note:    "cancels the slowest game, favours short ones",
		command: setCommand(m, doWithoutSlowest(samples)),
		change:  change{gamesNeeded: samples - 1},
	}, samples > 2 && (least == 0 || least == samples) && tail >= minWaitShare
}

// doWithoutSlowest completes groups without their slowest game. Without a grace they would still be given its time.
func doWithoutSlowest(samples int) string {
	return fmt.Sprintf("group.min_samples=%d group.grace=1s", samples-1)
}

// slowestGameTail is by what share of its time a group waits for its slowest game alone.
func slowestGameTail(g *rollout.GroupView) float64 {
	first, second := 0.0, 0.0
	for _, sec := range g.EpisodeSec {
		switch {
		case sec > first:
			first, second = sec, first
		case sec > second:
			second = sec
		}
	}
	if second == 0 {
		return 0
	}
	return (first - second) / first
}

// noAdapterStalls is engines that go on while they load an adapter.
func noAdapterStalls(m *measurements, reg *regime) (whatIfChange, bool) {
	stall := loadSecPerStep(m)
	return whatIfChange{name: "no engine waits for adapters", note: "if loading one stops an engine",
		change: change{stallSec: -stall}}, stall >= minWaitShare*reg.StepSec
}

// ownLimitRaised lifts the run's own limit of requests in flight.
func ownLimitRaised(m *measurements, reg *regime) (whatIfChange, bool) {
	own := m.in.Spec.Dispatch.MaxInFlightPerEngine
	limit := int(m.fleet.slots / max(1, m.fleet.engines))
	return whatIfChange{
		name:    fmt.Sprintf("max_in_flight_per_engine %d -> %d", own, limit),
		command: setCommand(m, fmt.Sprintf("dispatch.max_in_flight_per_engine=%d", limit)),
		change:  change{engineLimit: limit},
	}, own > 0 && limit > own && reg.slots.full()
}

// fewerInFlight gives engines whose KV caches are full no more requests than fit: none is thrown out and computed
// again.
func fewerInFlight(m *measurements, reg *regime) (whatIfChange, bool) {
	fits, known := kvFit(m)
	was := m.in.Spec.Dispatch.MaxInFlightPerEngine
	if was == 0 {
		was = int(math.Round(reg.memory.limit))
	}
	return whatIfChange{
		name:    fmt.Sprintf("max_in_flight_per_engine %d -> %d", was, fits),
		note:    "as many as the KV cache holds",
		command: setCommand(m, fmt.Sprintf("dispatch.max_in_flight_per_engine=%d", fits)),
		change:  change{engineTime: 1 - reg.memory.recomputed()},
	}, known && reg.Resource == EngineMemory && fits < was && reg.memory.preempted >= kvPreempted
}

// moreMemory gives the KV caches a quarter more room: at best as many more requests run, each as fast as now.
func moreMemory(_ *measurements, reg *regime) (whatIfChange, bool) {
	const more = 1.25
	return whatIfChange{name: "a quarter more KV memory at the engines", atBest: true,
		note:   "gpu_memory_utilization, max_model_len, fp8 KV; at best, if more requests do not slow each other down",
		change: change{engineTime: 1 / more}}, reg.Resource == EngineMemory
}

// backgroundPublication is a trainer that does not wait until the engines serve its weights.
func backgroundPublication(m *measurements, reg *regime) (whatIfChange, bool) {
	sec := m.mean(m.present, phaseSec(publishAt))
	return whatIfChange{name: "publication in the background",
		note: "games are one version staler", change: change{computeSec: -sec},
	}, sec >= minWaitShare*reg.StepSec
}

// fewerGroups is half as much to train on in each step.
func fewerGroups(m *measurements, reg *regime) (whatIfChange, bool) {
	take := m.steps[len(m.steps)-1].view().GroupsPerStep
	half := take / 2
	return whatIfChange{
		name:    fmt.Sprintf("groups per step %d -> %d", take, half),
		note:    "trains on half as much in half the time",
		command: setCommand(m, fmt.Sprintf("buffer.groups_per_step=%d", half)), less: true,
		change: change{take: half, computeTime: float64(half) / max(1, float64(take))},
	}, take >= 2 && reg.Kind != ComputeBound
}
