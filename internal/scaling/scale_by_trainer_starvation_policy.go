package scaling

import (
	"fmt"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/kit/units"
)

// spare is the head room that the remaining engines must have before others are given back.
const spare = 0.10

// joinsWithin is for how many cold starts engines that were bought are waited for, before more may be bought.
const joinsWithin = 3

// starvation buys engines while a run waits for what more of them would shorten, and gives them back when fewer are
// enough. One change follows another after a cold start at the earliest.
func (m *Machine) starvation(s *Sample) []Command {
	needs := m.needsOf(s)
	t := m.sum(needs)
	m.learn(t.work, batchOf(s))
	up, down := m.wanted(t)
	toBuy, sure := m.Ups.least(s.At, up, confirmWithin(s))
	toKeep, held := m.Downs.greatest(s.At, down, m.holdFor(s))
	toBuy, toKeep = min(toBuy, m.most()), min(toKeep, m.most()) // a price may have risen meanwhile
	cold := m.coldStart(s)
	m.Rest = cold.Seconds()
	next := m.lastChange().Add(cold)
	m.Next = next
	rested := !s.At.Before(next)
	joining := s.Engines.Starting > 0 && s.At.Before(m.LastUp.Add(joinsWithin*cold))
	// As long as no step is done, one purchase must do: more is known when the trainer has shown how fast it is.
	first := t.capacity != nil && t.capacity.run.C <= 0
	again := first && m.Last != nil && m.Last.Code == Buys
	switch {
	case sure && toBuy > m.Wanted && rested && !joining && !again:
		return []Command{m.buy(s, needs, t, toBuy)}
	case held && toKeep < m.Wanted && rested && !joining && !m.measuring(s):
		return []Command{m.giveBack(s, needs, t, toKeep)}
	}
	m.Why = m.holds(t, needs, up, joining, rested)
	return nil
}

// confirmWithin is the time for which engines must be worth buying: of two samples one after the other.
func confirmWithin(s *Sample) time.Duration { return time.Duration(s.Sec * float64(time.Second)) }

// wanted is how many engines would be bought for, and how many must stay.
func (m *Machine) wanted(t sums) (up, down int) {
	least, most := m.least(), m.most()
	up, down = m.Wanted, m.Wanted
	if t.capacity != nil {
		up = whole(t.buys)
		if m.Ceiling != nil {
			up = min(up, m.Ceiling.Engines)
		}
		if worth := float64(up) / float64(max(1, m.Wanted)); worth < 1+worthwhile {
			up = m.Wanted
		}
	}
	if t.known {
		down = whole(t.keeps)
		if m.Floor != nil {
			down = max(down, m.Floor.Engines)
		}
	}
	return min(max(up, least, 1), most), min(max(down, least, 1), most)
}

// lastChange is when the number was changed, in whichever direction.
func (m *Machine) lastChange() time.Time {
	if m.LastUp.After(m.LastDown) {
		return m.LastUp
	}
	return m.LastDown
}

// rest is how long the next change is off at least.
func (m *Machine) rest() time.Duration {
	if m.Config.Policy != Starvation {
		return 0
	}
	return time.Duration(m.Rest * float64(time.Second))
}

func (m *Machine) buy(s *Sample, needs []need, t sums, to int) Command {
	n := t.capacity
	predicted := m.predicted(needs, to)
	then := effectOn(predicted, n)
	reason := fmt.Sprintf("%s is capacity-bound: its batches take %s %s, and %s", n.run.Name, engineCount(n.run.Engines),
		units.Seconds(n.run.P), m.paceText(n))
	if n.shares {
		reason = fmt.Sprintf("%s is capacity-bound: the runs need %s together, and %s", n.run.Name,
			engineCount(t.engines), serve(s.Engines.Ready))
	}
	what := "they are"
	if n.shares {
		what = "its batches are"
	}
	reason += fmt.Sprintf("; with %s %s predicted to take %s", units.Counted(to, "engine"), what, units.Seconds(then))
	if unbound := whole(t.buys); unbound > to && to >= m.most() {
		reason += fmt.Sprintf("; %d are needed, %s", unbound, m.limitText())
	}
	if t.capacity.run.Priority > 0 || len(needs) > 1 {
		reason += fmt.Sprintf(" (%s)", needsText(needs))
	}
	change := m.change(s.At, to, Buys, reason, predicted)
	m.try(s, change, t.work)
	return change
}

func (m *Machine) giveBack(s *Sample, needs []need, t sums, to int) Command {
	predicted := m.predicted(needs, to)
	reason := fmt.Sprintf("%s will do: %s needed, and %s to spare", units.Counted(to, "engine"), units.Number(t.engines),
		units.Percent(spare))
	switch {
	case len(needs) != 1:
		reason += fmt.Sprintf(" (%s)", needsText(needs))
	case needs[0].capped():
		run := needs[0].run
		reason = fmt.Sprintf("%s will do: the max_engines of %s is %d", units.Counted(to, "engine"), run.Name, run.MaxEngines)
	default:
		reason += fmt.Sprintf("; %s", m.paceText(&needs[0]))
	}
	change := m.change(s.At, to, GivesBack, reason, predicted)
	m.try(s, change, t.work)
	return change
}

// predicted compares the runs' steps with so many engines with their present steps.
func (m *Machine) predicted(needs []need, to int) []Effect {
	effects := predict(needs, to)
	for i := range effects {
		for _, n := range needs {
			if n.run.Name == effects[i].Run {
				effects[i].BeforeSec = m.before(n.run.Name, n.run.Depth)
			}
		}
	}
	return effects
}

func effectOn(effects []Effect, n *need) float64 {
	for _, e := range effects {
		if e.Run == n.run.Name {
			return e.PredictedSec
		}
	}
	return n.pace
}

// holds is why the number stays as it is.
func (m *Machine) holds(t sums, needs []need, up int, joining, rested bool) string {
	switch {
	case joining:
		return fmt.Sprintf("the engines that were bought are still starting; %s wanted", isAre(m.Wanted))
	case t.capacity != nil && up <= m.Wanted:
		if m.Ceiling != nil && m.Wanted >= m.Ceiling.Engines {
			return fmt.Sprintf("more than %s did not shorten steps", units.Counted(m.Ceiling.Engines, "engine"))
		}
		if whole(t.buys) > m.Wanted && m.Wanted >= m.most() {
			return fmt.Sprintf("%s is capacity-bound, and %s", t.capacity.run.Name, m.limitText())
		}
		if n := t.capacity; n.capped() {
			return fmt.Sprintf("%s is capacity-bound, and its max_engines is %d", n.run.Name, n.run.MaxEngines)
		}
		return fmt.Sprintf("%s needs %s", t.capacity.run.Name, units.Counted(m.Wanted, "engine"))
	case t.capacity != nil && !rested:
		return fmt.Sprintf("%s is capacity-bound; the last change was less than a cold start ago", t.capacity.run.Name)
	case t.capacity != nil:
		return fmt.Sprintf("%s is capacity-bound; whether it stays so is waited for", t.capacity.run.Name)
	case !t.known:
		return "how much work a step is, and how long the trainer takes, is not known of every run yet"
	case len(needs) == 1:
		return fmt.Sprintf("%s needs %s; %s", needs[0].run.Name, engineCount(t.engines), m.paceText(&needs[0]))
	}
	return fmt.Sprintf("no run waits for capacity (%s)", needsText(needs))
}

// paceText describes the part of a step that no engine can shorten.
func (m *Machine) paceText(n *need) string {
	switch r := n.run; {
	case r.C <= 0:
		return "no step is done yet"
	case n.pace <= r.C:
		return fmt.Sprintf("the trainer takes %s", units.Seconds(r.C))
	case n.pace <= r.RD:
		return fmt.Sprintf("its games' latency allows a step every %s", units.Seconds(r.RD))
	}
	return fmt.Sprintf("a step of %s is short enough", units.Seconds(n.pace))
}

// limitText says what bounds the fleet.
func (m *Machine) limitText() string {
	if m.affordable() < m.Config.Max {
		return fmt.Sprintf("the budget of $%s an hour pays for %d", units.Number(m.Config.Budget), m.affordable())
	}
	return fmt.Sprintf("max is %d", m.Config.Max)
}

func needsText(needs []need) string {
	var texts []string
	for _, n := range needs {
		if !n.known {
			texts = append(texts, fmt.Sprintf("%s not known", n.run.Name))
			continue
		}
		texts = append(texts, fmt.Sprintf("%s %s", n.run.Name, units.Number(n.engines)))
	}
	return strings.Join(texts, ", ")
}

func engineCount(n float64) string {
	text := units.Number(n)
	if text == "1" {
		return "1 engine"
	}
	return text + " engines"
}

func serve(n int) string {
	if n == 1 {
		return "1 serves"
	}
	return fmt.Sprintf("%d serve", n)
}

func isAre(n int) string {
	if n == 1 {
		return "1 engine is"
	}
	return fmt.Sprintf("%d engines are", n)
}
