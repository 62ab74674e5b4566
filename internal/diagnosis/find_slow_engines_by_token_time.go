package diagnosis

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
)

// slowEngines says which engines are slow, as far as the records tell.
func slowEngines(m *measurements, c *comparison) string {
	names := slowEngineNames(m, c)
	switch {
	case len(names) == 0:
		return ""
	case names[0] == allEngines:
		return "; it is all of them"
	case len(names) == 1:
		return "; it is engine " + names[0]
	}
	return "; they are engines " + strings.Join(names, ", ")
}

// slowEngineNames compares each engine's time per token before and after; without records of single engines it lists
// those that the keeper found slow. If all have become equally slow, it is "all".
func slowEngineNames(m *measurements, c *comparison) []string {
	before, after := engineSpeeds(m, c.left[condRequestSec]), engineSpeeds(m, c.after)
	ratios := map[rollout.EngineID]float64{}
	least, most := math.Inf(1), 0.0
	for id, now := range after {
		if old, known := before[id]; known {
			ratios[id] = now / old
			least, most = min(least, ratios[id]), max(most, ratios[id])
		}
	}
	var names []string
	switch {
	case len(ratios) > 1 && least > alikeEngines*most && most > 1+moved:
		return []string{allEngines}
	case len(ratios) > 1 && most > 1+moved:
		for id, ratio := range ratios {
			if ratio > least/alikeEngines {
				names = append(names, string(id))
			}
		}
	default:
		if ev := slowEngineEvent(m, c, condSpeed); ev != nil {
			if id, ok := engineIn(ev.Text); ok {
				names = append(names, id)
			}
		}
	}
	slices.Sort(names)
	return names
}

const (
	// allEngines stands for a slowdown that no engine sticks out of.
	allEngines = "all"
	// alikeEngines is how much slower an engine may have become than another one and still be like it.
	alikeEngines = 0.75
)

// engineSpeeds is the seconds in flight for each completion token of each engine, for those with records of their own.
func engineSpeeds(m *measurements, steps []int) map[rollout.EngineID]float64 {
	sec, tokens := map[rollout.EngineID]float64{}, map[rollout.EngineID]float64{}
	for _, i := range steps {
		for _, v := range m.steps[i].view().Engines {
			done := v.OutputTPS * v.WindowSec
			if done > 0 && v.InFlight > 0 {
				sec[v.Engine] += v.InFlight * v.WindowSec
				tokens[v.Engine] += done
			}
		}
	}
	for id := range sec {
		sec[id] /= tokens[id]
	}
	return sec
}

const (
	// alikeLoads is how far the loads of two engines may be apart for their times to be compared.
	alikeLoads = 1.5
	// apartAlways is how many times as slow as the fastest ones an engine is that is slow from the start.
	apartAlways = 1.5
)

// slowAlways lists the engines that take much longer for a token than the fastest at about the same load, and how many
// times as fast as now the fleet would be if they were like those.
func slowAlways(m *measurements, steps []int) (names []string, faster float64) {
	took, load := engineSpeeds(m, steps), map[rollout.EngineID]float64{}
	for _, i := range steps {
		for _, v := range m.steps[i].view().Engines {
			load[v.Engine] += v.InFlight
		}
	}
	fastest := rollout.EngineID("")
	for _, id := range slices.Sorted(maps.Keys(took)) {
		if fastest == "" || took[id] < took[fastest] {
			fastest = id
		}
	}
	done, n := 0.0, 0.0
	for _, id := range slices.Sorted(maps.Keys(took)) {
		ratio := took[id] / took[fastest]
		if ratio > apartAlways && load[id] < alikeLoads*load[fastest] {
			names = append(names, string(id))
		} else {
			ratio = 1
		}
		done, n = done+1/ratio, n+1
	}
	return names, n / max(done, 1e-9)
}

// slowFromTheStart weighs engines that were slower than the others in all steps.
func (p *predictions) slowFromTheStart(m *measurements, reg *regime, e effect) (Cause, bool) {
	names, faster := slowAlways(m, e.after)
	if len(names) == 0 {
		return Cause{}, false
	}
	text := fmt.Sprintf("engines %s take more than %s times as long for a token as the fastest, at about the same load",
		strings.Join(names, ", "), units.Number(apartAlways))
	one := decided(CauseEngineSlow, e.weigh(p.gain(reg, change{engineTime: 1 / faster})), text, Modelled)
	one.Evidence = []Evidence{{text, Measured}}
	one.Fix = fix(m, "if they are not of a slower kind: take them out, one after another, and put others in their place",
		"millrace engine remove "+names[0])
	return one, true
}

// engineIn is the engine that an event's text names: "engine e2 is slow: ...".
func engineIn(text string) (string, bool) {
	words := strings.Fields(text)
	for i, w := range words[:max(0, len(words)-1)] {
		if strings.EqualFold(w, "engine") {
			return strings.TrimRight(words[i+1], ":,;"), true
		}
	}
	return "", false
}
