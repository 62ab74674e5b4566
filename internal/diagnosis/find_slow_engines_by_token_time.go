package diagnosis

import (
	"math"
	"slices"
	"strings"

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
