package diagnosis

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// A full buffer hides a cause: a change takes effect when the batches that were played before it are consumed. Events
// are searched from the launch of the first group that shows a change, and a little before, until the jump.

// stepDuring is the step that a time falls into: the last one that had been asked for.
func (m *measurements) stepDuring(t time.Time) rollout.Step {
	no := m.all[0].no
	for i := range m.all {
		if asked := m.all[i].view().FirstAskedAt; asked.IsZero() || asked.After(t) {
			break
		}
		no = m.all[i].no
	}
	return no
}

// jumpAt is the step from which on an effect is felt.
func (e effect) jumpAt(m *measurements) rollout.Step {
	if e.jump != nil {
		return e.jump.At
	}
	return m.steps[e.after[0]].no
}

// delayText says in which step an event was, and when it was felt.
func delayText(m *measurements, e effect, ev Event) string {
	began, felt := m.stepDuring(ev.At), e.jumpAt(m)
	text := " in step"
	if strings.Contains(ev.Text, ": ") { // a reason stands between
		text = ", in step"
	}
	if began == felt {
		return fmt.Sprintf("%s %d", text, began)
	}
	return fmt.Sprintf("%s %d, felt from step %d", text, began, felt)
}

// eventWindow is the time in which something must have been done to explain a condition's change: for what new groups
// are made of, about when the first of them was launched; for the fleet, about when it was seen to change.
func eventWindow(m *measurements, c *comparison, which condition) (from, to time.Time, ok bool) {
	at := c.onset[which]
	if at < 0 || at >= len(m.steps) {
		return from, to, false
	}
	slack := seconds(max(1, 1.5*m.mean(c.after, (*step).seconds)))
	began := c.began(m, which)
	_, seen := m.steps[at].span()
	if began.IsZero() || seen.IsZero() {
		return from, to, false
	}
	// Games that were in play when the fleet changed had been launched before.
	return began.Add(-slack), seen, true
}

// eventBehind is the action that explains a condition's change; nil: there is none.
func eventBehind(m *measurements, c *comparison, which condition, name CauseName) *Event {
	from, to, ok := eventWindow(m, c, which)
	if !ok {
		return nil
	}
	want := func(ev Event) bool { return false }
	switch which {
	case condEngines:
		want = func(ev Event) bool {
			return name == CauseScaleDown && ev.Kind == EventEngineLeft ||
				name != CauseScaleDown && ev.Kind == EventEngineLost
		}
	case condSpeed, condLimit:
		want = isSlowEngine
	}
	return decisionBehind(m, joinedEvents(m.events, from, to, nearestEvent(m.events, from, to, c.began(m, which), want)))
}

// mostNamed bounds the engines that are named where several went at once.
const mostNamed = 4

// joinedEvents is an engine's loss with those of others in the same time.
func joinedEvents(events []Event, from, to time.Time, first *Event) *Event {
	if first == nil || !isLoss(*first) {
		return first
	}
	joined, more := *first, 0
	for i := range events {
		ev := &events[i]
		switch {
		case ev == first || ev.Kind != first.Kind || ev.At.Before(from) || ev.At.After(to) || ev.Text == first.Text:
		case more < mostNamed-1:
			joined.Text += ", " + ev.Text
			more++
		default:
			more++
		}
	}
	if more >= mostNamed {
		joined.Text += fmt.Sprintf(", and %d more", more-mostNamed+1)
	}
	return &joined
}

// isSlowEngine reports whether the keeper found an engine slower than the others.
func isSlowEngine(ev Event) bool {
	return ev.Kind == EventOther && strings.Contains(ev.Text, "engine") && strings.Contains(ev.Text, "slow") &&
		!strings.Contains(ev.Text, "no longer")
}

// slowEngineEvent is the keeper's finding behind a condition's change; nil: there is none.
func slowEngineEvent(m *measurements, c *comparison, which condition) *Event {
	from, to, ok := eventWindow(m, c, which)
	if !ok {
		return nil
	}
	return nearestEvent(m.events, from, to.Add(to.Sub(from)), c.began(m, which), isSlowEngine)
}

// nearestEvent is the wanted event of a window that is nearest to a time.
func nearestEvent(events []Event, from, to, near time.Time, want func(Event) bool) *Event {
	var best *Event
	for i := range events {
		ev := &events[i]
		if ev.At.Before(from) || ev.At.After(to) || !want(*ev) {
			continue
		}
		if best == nil || ev.At.Sub(near).Abs() < best.At.Sub(near).Abs() {
			best = ev
		}
	}
	return best
}

// edited is a key that an operator's change names: "group.samples=12 (was 6)".
var edited = regexp.MustCompile(`([a-z_][a-z0-9_.]*)\s*=\s*(\S+)(?: \(was ([^)]*)\))?`)

// conditionsOfKey lists the conditions that a spec key may change, by the last part of its path.
var conditionsOfKey = map[string][]condition{
	"samples": {condGames, condPlayed, condWithin}, "min_samples": {condGames, condPlayed, condWithin},
	"oversample": {condGames, condPlayed, condWithin}, "grace": {condPlayed, condWithin, condGames},
	"groups_per_step": {condGroups, condTrain, condLoad, condRef, condBetween, condOther},
	"depth":           {condDepth, condPlayed}, "max_staleness": {condDepth, condPlayed}, "max_bytes": {condDepth},
	"on_stale": {condDepth, condPlayed, condHandover}, "order": {condBetween, condPlayed},
	"zero_variance": {condPlayed}, "max_tokens": {condCompletion},
	"max_in_flight_per_engine": {condLimit}, "steps": {},
	"completion": {}, "phase": {}, "episode": {}, "heartbeat": {}, "retention": {}, // timeouts
}

// ownLimitAt is the run's own limit of requests in flight at an engine at a time, as operators set it, or as it is now;
// 0: no limit but the engines'.
func (m *measurements) ownLimitAt(at time.Time) float64 {
	limit := m.in.Spec.Dispatch.MaxInFlightPerEngine
	for i := len(m.events) - 1; i >= 0 && m.events[i].At.After(at); i-- {
		for _, key := range edited.FindAllStringSubmatch(m.events[i].Text, -1) {
			if was, err := strconv.Atoi(key[3]); err == nil && key[1] == "dispatch.max_in_flight_per_engine" {
				limit = was
			}
		}
	}
	return float64(limit)
}

// ofAnOperator reports whether an unknown key may have changed a condition: any but those of the fleet.
func ofAnOperator(which condition) bool {
	return !slices.Contains([]condition{condEngines, condOthers, condStall, condHandover, condSpeed}, which)
}

// mayChange reports whether an operator's change may be behind a condition's.
func mayChange(ev Event, which condition) bool {
	if ev.Kind != EventConfig {
		return false
	}
	keys := edited.FindAllStringSubmatch(ev.Text, -1)
	for _, key := range keys {
		path := strings.Split(key[1], ".")
		conditions, known := conditionsOfKey[path[len(path)-1]]
		if known && slices.Contains(conditions, which) || !known && ofAnOperator(which) {
			return true
		}
	}
	verb, _, _ := strings.Cut(ev.Text, " ")
	return len(keys) == 0 && verb != "start" && verb != "resume" && verb != "stop" && ofAnOperator(which)
}

// withOperatorsChange puts an operator's change before what it changed. The conditions behind it stay, as what it did.
func withOperatorsChange(m *measurements, e effect, c *comparison, changes []changedCondition, causes []Cause) []Cause {
	type behind struct {
		event *Event
		share Share
		texts []string
		felt  *rollout.Step
	}
	var found []behind
	for _, change := range changes {
		from, to, ok := eventWindow(m, c, change.which)
		if !ok || change.sec <= 0 {
			continue
		}
		ev := nearestEvent(m.events, from, to, c.began(m, change.which), func(ev Event) bool {
			return mayChange(ev, change.which)
		})
		if ev == nil {
			continue
		}
		at := slices.IndexFunc(found, func(b behind) bool { return b.event == ev })
		if at < 0 {
			no := m.steps[c.onset[change.which]].no
			found, at = append(found, behind{event: ev, felt: &no}), len(found)
		}
		b := &found[at]
		b.share = Share{b.share.Of + change.share.Of, b.share.Low + change.share.Low, b.share.High + change.share.High,
			OfJump}
		b.texts = append(b.texts, conditionText(c, change.which))
	}
	var out []Cause
	for _, b := range found {
		if b.share.Of < someOf {
			continue
		}
		began, share := m.stepDuring(b.event.At), b.share
		one := Cause{
			Name: CauseConfig, Decision: decisionOf(share), Basis: Modelled, Share: &share, Event: b.event, Began: &began,
			Felt: b.felt, Text: fmt.Sprintf("%q%s: %s", b.event.Text, delayText(m, e, *b.event), strings.Join(b.texts, ", ")),
			Evidence: []Evidence{{b.event.Text + delayText(m, e, *b.event), Measured}},
		}
		one.Fix = undo(m, b.event)
		out = append(out, one)
	}
	return append(out, causes...)
}

// undo is the change that takes an operator's back.
func undo(m *measurements, ev *Event) *Fix {
	const text = "take the change back, if it was not meant to cost this"
	var settings []string
	for _, key := range edited.FindAllStringSubmatch(ev.Text, -1) {
		if key[3] != "" {
			settings = append(settings, key[1]+"="+key[3])
		}
	}
	if len(settings) == 0 {
		return &Fix{Text: text}
	}
	return fix(m, text, setCommand(m, settings...))
}
