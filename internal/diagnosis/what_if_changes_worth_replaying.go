package diagnosis

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// whatIfChange is one thing done differently.
type whatIfChange struct {
	name    string
	note    string
	command string // that makes it; empty when none does
	staler  bool   // trains on older games than the run allows
	change  change
	// onlyHelp: it is not worth a word unless it helps.
	onlyHelp bool
	// deeper: it is about depth, which is no answer where the engines are the limit and engines are one.
	deeper bool
}

// whatIfChanges lists what is worth replaying differently for this run: nothing that the run would refuse.
func whatIfChanges(m *measurements, reg *regime) []whatIfChange {
	out := slices.Concat(capacityChanges(m, reg), depthChanges(m, reg), settingChanges(m, reg))
	if refSec := m.mean(m.present, phaseSec(refAt)); refSec >= minWaitShare*reg.ComputeSec {
		out = append(out, refLogprobsInRollouts(refSec))
	}
	if m.mean(m.present, (*step).lateTail) >= minWaitShare*reg.StepSec {
		out = append(out, whatIfChange{name: "no group slower than the p90",
			note: "a straggler's deadline or a shorter horizon", change: change{stragglerCap: 0.9}})
	}
	return out
}

// capacityChanges are more engines, or more workers where it is those that the run is short of.
func capacityChanges(m *measurements, reg *regime) []whatIfChange {
	n := max(1, int(math.Round(m.fleet.engines)))
	engines := func(to int, note string) whatIfChange {
		return whatIfChange{name: fmt.Sprintf("engines %d -> %d", n, to), note: note, command: m.enginesCommand(to),
			change: change{engines: float64(to) / max(1, m.fleet.engines)}}
	}
	if reg.Resource == WorkerSlots {
		more := whatIfChange{name: "room for games at workers x2", note: "as many workers again",
			command: "millrace worker", change: change{workers: 2}}
		twice := engines(2*n, "")
		twice.command = ""
		return []whatIfChange{more, twice}
	}
	out := []whatIfChange{engines(2*n, "")}
	most := int(math.Round(mostEngines(m)))
	if most > n && most != 2*n {
		back := engines(most, "as many as the run had")
		if m.in.Scaling == nil {
			back.command = "millrace engine list"
		}
		out = append(out, back)
	}
	enough := int(math.Ceil(1.1 * m.fleet.engines * reg.StepSec / reg.ComputeSec))
	if reg.Kind == CapacityBound && enough > n && enough != 2*n && enough != most {
		out = append(out, engines(enough, "sized with 10 % to spare"))
	}
	return out
}

// mostEngines is the most engines that the run had in any step.
func mostEngines(m *measurements) float64 {
	most := 0.0
	for i := range m.steps {
		most = max(most, m.steps[i].view().Fleet.Engines)
	}
	return most
}

// depthChanges tries one and two batches more and, if latency asks for it, as many as hide it. Where a bound admits
// fewer than the depth asks for, it is the bound that is raised, and more depth alone is shown to do nothing.
func depthChanges(m *measurements, reg *regime) []whatIfChange {
	set := m.setDepth()
	depth := min(set, m.stalenessLimit(), m.bytesLimit())
	tries := []int{depth + 1, depth + 2}
	enough := int(math.Ceil(reg.LatencySec / reg.ComputeSec))
	if (reg.Kind == LatencyBound || reg.Kind == UndecidedRegime) && enough > depth+2 {
		tries = append(tries, enough)
	}
	var out []whatIfChange
	if depth < set {
		name := fmt.Sprintf("depth %d -> %d", set, set+1)
		out = append(out, whatIfChange{name: name, note: bindingLimit(m)})
	}
	for _, d := range tries {
		if d <= runspec.MaxDepth {
			out = append(out, outstandingChange(m, d))
		}
	}
	out = slices.DeleteFunc(out, func(c whatIfChange) bool { return refused(m, c.command) })
	for i := range out {
		out[i].deeper = true
	}
	return out
}

// refused reports whether the run would not take what a command sets.
func refused(m *measurements, command string) bool {
	settings, sets := strings.CutPrefix(command, "millrace run set ")
	if !sets {
		return false
	}
	parsed, err := spec.ParseChange(strings.Fields(settings)[1:])
	if err != nil {
		return true
	}
	_, err = parsed.Apply(m.in.Spec)
	return err != nil
}

// outstandingChange raises whatever keeps the run from having d batches outstanding. It is named for the depth, if
// that has to be raised, or else for the bound; the rest are its needs.
func outstandingChange(m *measurements, d int) whatIfChange {
	set, fitting, buffer := m.setDepth(), m.bytesLimit(), m.in.Spec.Buffer
	c := whatIfChange{change: change{admitted: max(d, m.stalenessLimit())}}
	if held := min(set, fitting); d > held {
		c.change.depth = d
	}
	var names, settings []string
	if d > set {
		names = append(names, fmt.Sprintf("depth %d -> %d", set, d))
		settings = append(settings, fmt.Sprintf("buffer.depth=%d", d))
	}
	if d > m.stalenessLimit() {
		c.staler = true
		if len(names) > 0 {
			c.note = fmt.Sprintf("needs max_staleness %d, is %d", d, buffer.MaxStaleness)
		}
		names = append(names, fmt.Sprintf("max_staleness %d -> %d", buffer.MaxStaleness, d))
		settings = append(settings, fmt.Sprintf("buffer.max_staleness=%d", d))
	}
	if d > fitting {
		now, mib := buffer.MaxBytes, int64(1<<20)
		enough := (now*int64(d)/int64(max(1, fitting)) + mib - 1) / mib
		if len(names) > 0 {
			needs := fmt.Sprintf(", needs max_bytes %s, is %s", units.Bytes(enough*mib), units.Bytes(now))
			c.note = strings.TrimPrefix(c.note+needs, ", ")
		}
		names = append(names, fmt.Sprintf("max_bytes %s -> %s", units.Bytes(now), units.Bytes(enough*mib)))
		settings = append(settings, fmt.Sprintf("buffer.max_bytes=%dMiB", enough))
	}
	c.name = names[0]
	c.command = setCommand(m, settings...)
	return c
}

func setCommand(m *measurements, settings ...string) string {
	return fmt.Sprintf("millrace run set %s %s", m.in.Spec.Name, strings.Join(settings, " "))
}

// bindingLimit says which bound admits fewer batches than the depth asks for.
func bindingLimit(m *measurements) string {
	if m.bytesLimit() < m.stalenessLimit() {
		return "max_bytes has no room for more"
	}
	return fmt.Sprintf("max_staleness %d admits no more", m.in.Spec.Buffer.MaxStaleness)
}

// refWorkShare is the assumed extra work of computing reference log-probabilities during rollouts.
const refWorkShare = 0.10

// refLogprobsInRollouts takes a phase of savedSec from every step, and makes the games longer for it.
func refLogprobsInRollouts(savedSec float64) whatIfChange {
	const name, note = "ref log-probs in rollouts", "assuming 10 % more work"
	return whatIfChange{name: name, note: note, change: change{requestUse: 1 + refWorkShare, computeSec: -savedSec}}
}

// settingChanges are those that need no hardware, where the record shows what they would save.
func settingChanges(m *measurements, reg *regime) []whatIfChange {
	var out []whatIfChange
	for _, propose := range []func(*measurements, *regime) (whatIfChange, bool){
		noRefills, noStaleDrops, withoutSlowestGame, ownLimitRaised,
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
func slowestGameTail(g *steprecord.GroupView) float64 {
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
