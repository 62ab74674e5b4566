package diagnosis

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/spec"
	"github.com/millrace/millrace/internal/units"
)

// whatIfChange is one thing done differently.
type whatIfChange struct {
	name    string
	note    string
	command string // that makes it; empty when none does
	staler  bool   // trains on older games than the run allows
	less    bool   // trains on less per step, which no step time weighs up
	change  change
	// onlyHelp: it is not worth a word unless it helps.
	onlyHelp bool
	// atBest: the change is what it can do at best; at worst it does nothing.
	atBest bool
	// deeper: it is about depth, which is no answer where the engines are the limit and engines are one.
	deeper bool
	// simulate is the same change for a simulator; none: the change is one that it does not know.
	simulate SimulatedChange
}

// whatIfChanges lists what is worth replaying differently for this run: nothing that the run would refuse.
func whatIfChanges(m *measurements, reg *regime) []whatIfChange {
	out := slices.Concat(capacityChanges(m, reg), depthChanges(m, reg), settingChanges(m, reg))
	if refSec := m.mean(m.present, phaseSec(refAt)); refSec >= minWaitShare*reg.C.Sec {
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
			change: change{engines: float64(to) / max(1, m.fleet.engines)}, simulate: SimulatedChange{Engines: to}}
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
	enough := int(math.Ceil(1.1 * m.fleet.engines * reg.P.Sec / reg.C.Sec))
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
	enough := int(math.Ceil(reg.R.Sec / reg.C.Sec))
	if (reg.Kind == LatencyBound || reg.Kind == UndecidedRegime) && enough > depth+2 {
		tries = append(tries, enough)
	}
	var out []whatIfChange
	if depth < set {
		name := fmt.Sprintf("depth %d -> %d", set, set+1)
		out = append(out, whatIfChange{name: name, note: bindingLimit(m), simulate: SimulatedChange{Depth: set + 1}})
	}
	for _, d := range tries {
		if d <= rollout.MaxDepth {
			out = append(out, outstandingChange(m, d))
		}
	}
	out = slices.DeleteFunc(out, func(c whatIfChange) bool { return refused(m, c.command) })
	for i := range out {
		out[i].deeper = true
		if reg.Resource == EngineSpeed {
			out[i].note = strings.TrimPrefix(out[i].note+", never below P = "+units.Seconds(reg.P.Sec), ", ")
		}
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
		c.simulate.Depth = d
		names = append(names, fmt.Sprintf("depth %d -> %d", set, d))
		settings = append(settings, fmt.Sprintf("buffer.depth=%d", d))
	}
	if d > m.stalenessLimit() {
		c.staler, c.simulate.MaxStaleness = true, int64(d)
		if len(names) > 0 {
			c.note = fmt.Sprintf("needs max_staleness %d, is %d", d, buffer.MaxStaleness)
		}
		names = append(names, fmt.Sprintf("max_staleness %d -> %d", buffer.MaxStaleness, d))
		settings = append(settings, fmt.Sprintf("buffer.max_staleness=%d", d))
	}
	if d > fitting {
		c.simulate = SimulatedChange{} // it does not know how large trajectories are
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

// refWorkShare is what computing reference log-probabilities during rollouts is taken to add to their work.
const refWorkShare = 0.10

// refLogprobsInRollouts takes a phase of savedSec from every step, and makes the games longer for it.
func refLogprobsInRollouts(savedSec float64) whatIfChange {
	const name, note = "ref log-probs in rollouts", "assuming 10 % more work"
	return whatIfChange{name: name, note: note, change: change{requestUse: 1 + refWorkShare, computeSec: -savedSec}}
}
