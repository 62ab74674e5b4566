package diagnosis

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
)

// jointly is the share of what several conditions explain together from which on each of them is a cause.
const jointly = 0.3

// changedCauses lists the causes of a jump: the differences between the steps before and after it, by their share of
// the jump.
func changedCauses(m *measurements, reg *regime, p *predictions, e effect, c *comparison) []Cause {
	changes := changedConditions(m, reg, p, c, e)
	var causes []Cause
	for _, change := range changes {
		one := causeOfChange(m, e, c, change)
		if at := slices.IndexFunc(causes, func(other Cause) bool { return other.Name == one.Name }); at >= 0 {
			causes[at] = joined(causes[at], one)
			continue
		}
		causes = append(causes, one)
	}
	causes = refMovedToRollouts(m, c, changes, causes)
	together := 0.0
	for _, one := range causes {
		together += max(0, one.Share.Of)
	}
	for i := range causes {
		causes[i].Decision = decisionOf(*causes[i].Share)
		if together >= mostOf && causes[i].Share.Of >= jointly*together && causes[i].Share.Low > 0 {
			causes[i].Decision = IsCause // two causes are two
		}
	}
	causes = withOperatorsChange(m, e, c, changes, causes)
	slices.SortStableFunc(causes, func(a, b Cause) int { return compareShares(b, a) })
	return causes
}

func compareShares(a, b Cause) int {
	switch {
	case a.Share.Of < b.Share.Of:
		return -1
	case a.Share.Of > b.Share.Of:
		return 1
	}
	return 0
}

// decisionOf decides about a candidate by its share of the effect.
func decisionOf(s Share) Decision {
	switch {
	case s.Of >= someOf && s.Low <= 0 && s.High > s.Low:
		return Possible // it may be nothing
	case s.Of >= mostOf:
		return IsCause
	case s.Of >= someOf:
		return Contributes
	}
	return notACause
}

// joined is two conditions of one cause.
func joined(a, b Cause) Cause {
	s := Share{a.Share.Of + b.Share.Of, a.Share.Low + b.Share.Low, a.Share.High + b.Share.High,
		OfJump}
	a.Share = &s
	a.Text += ", " + b.Text
	a.Evidence = append(a.Evidence, b.Evidence...)
	return a
}

// causeOfChange is one changed condition as a cause, with what was done at the time.
func causeOfChange(m *measurements, e effect, c *comparison, change changedCondition) Cause {
	which := change.which
	share := change.share
	one := Cause{Name: conditionKinds[which].cause, Basis: Modelled, Share: &share, Text: conditionText(c, which)}
	one.Evidence = []Evidence{{one.Text, Measured}}
	if at := c.onset[which]; at >= 0 && at < len(m.steps) {
		felt := m.steps[at].no
		one.Felt = &felt
	}
	switch which {
	case condEngines:
		one.Name = fewerEnginesCause(m, c)
	case condPlayed:
		one.Name, one.Text = dropsCause(m, c, one.Text)
	case condSpeed:
		which := slowEngines(m, c)
		one.Text += which
	case condLimit:
		if m.in.Spec.Dispatch.MaxInFlightPerEngine == 0 && slowEngineEvent(m, c, condLimit) != nil {
			one.Name = CauseEngineSlow
		}
	case condPublish:
		if c.differs(condStall) && c.now[condStall]-c.old[condStall] >= 0.5*(c.now[condPublish]-c.old[condPublish]) {
			one.Name = CauseAdapterLoad // the trainer's publication waits for the engines to load it
		}
	}
	if ev := eventBehind(m, c, which, one.Name); ev != nil {
		one.Event = ev
		began := m.stepDuring(ev.At)
		one.Began = &began
		one.Text = fmt.Sprintf("%s%s: %s", ev.Text, delayText(m, e, *ev), one.Text)
		one.Evidence = append(one.Evidence, Evidence{ev.Text + delayText(m, e, *ev), Measured})
	} else if which != condEngines && one.Felt != nil {
		began := *one.Felt // the trainer and the fleet show it at once
		if t := c.began(m, which); !t.IsZero() && (ofGames(which) || which == condSpeed) {
			began = m.stepDuring(t)
		}
		one.Began = &began
	}
	one.Fix = fixOf(m, c, one)
	return one
}

// dropsCause tells groups that became too stale from other drops.
func dropsCause(m *measurements, c *comparison, text string) (CauseName, string) {
	drops := dropsIn(m, c.after)
	if stale := drops.byCode[rollout.CodeStale]; stale > 0 && 2*stale >= drops.all {
		return CauseStaleDrops, text + drops.text()
	}
	return CauseMoreGames, text + drops.text()
}

// refMovedToRollouts joins what the engines do more with what the trainer does less: reference log-probs that are made
// during the rollouts.
func refMovedToRollouts(m *measurements, c *comparison, changes []changedCondition, causes []Cause) []Cause {
	old := m.mean(positions(0, c.from), phaseSec(refAt)) // it may have moved, and been felt, long before the jump
	if c.known(condRef) {
		old = max(old, c.old[condRef])
	}
	now := c.now[condRef]
	if now > 0.5*old || old < minWaitShare*m.mean(c.after, (*step).compute) {
		return causes
	}
	at := slices.IndexFunc(causes, func(one Cause) bool {
		return one.Share.Of > 0 && slices.Contains([]CauseName{
			CauseEngineSlow, CauseLongerPrompts, CauseLongerCompletions, CauseLongerGames, CauseLowerPrefixHits,
		}, one.Name)
	})
	if at < 0 {
		return causes
	}
	one := causes[at]
	one.Name = CauseRefInRollouts
	one.Text = fmt.Sprintf("reference log-probs take the trainer %s, took %s, and the engines do more: %s",
		units.Seconds(now), units.Seconds(old), one.Text)
	one.Fix = &Fix{Text: "compute the reference log-probs in the trainer again, or add engines for them"}
	causes[at] = one
	return slices.DeleteFunc(causes, func(other Cause) bool { return other.Name == CauseRefLogprobs })
}

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
