package diagnosis

import (
	"fmt"
	"slices"

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
		if now := m.adaptersOver(c.after); now.short() && !m.adaptersOver(c.left[condRequestSec]).short() {
			one.Name, one.Text = CauseAdapterSlots, now.text()+": "+one.Text
			break
		}
		one.Text += slowEngines(m, c)
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
