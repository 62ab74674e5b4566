package diplomacyenv

import (
	"errors"
	"fmt"
	"strings"

	"github.com/millrace/millrace/internal/game/diplomacy"
)

// PromptConfig says what a prompt shows besides the rules, the board and the units to be ordered.
type PromptConfig struct {
	// LegalOrders lists every legal order of every unit.
	LegalOrders bool `json:"legal_orders"`
	// Neighbours lists where every own unit can move without a convoy. Not shown together with LegalOrders, which
	// say so.
	Neighbours bool `json:"neighbours"`
	// Threats lists the own units and centres that foreign units could move to.
	Threats bool `json:"threats"`
	// HistoryPhases is how many of the last phases' orders and results are shown.
	HistoryPhases int `json:"history_phases"`
	// ChatTemplate wraps a prompt as the model's chat format wants it: {system} stands for the rules, which are the
	// same in every prompt, and {user} for the rest. Empty: the plain text goes to the engine.
	ChatTemplate string `json:"chat_template"`
}

const (
	systemMark = "{system}"
	userMark   = "{user}"
)

func (c PromptConfig) faults() []error {
	var errs []error
	if c.HistoryPhases < 0 {
		errs = append(errs, fmt.Errorf("prompt.history_phases: %d is negative", c.HistoryPhases))
	}
	t := c.ChatTemplate
	if t == "" {
		return errs
	}
	if strings.Count(t, userMark) != 1 || strings.Count(t, systemMark) > 1 {
		errs = append(errs, errors.New("prompt.chat_template: want {user} once and {system} at most once"))
	} else if strings.Index(t, systemMark) > strings.Index(t, userMark) {
		errs = append(errs, errors.New("prompt.chat_template: want {system} before {user}, so that prompts share "+
			"their beginning"))
	}
	return errs
}

// wrap puts the parts of a prompt together.
func (c PromptConfig) wrap(system, user string) string {
	switch {
	case c.ChatTemplate == "":
		return system + "\n" + user
	case !strings.Contains(c.ChatTemplate, systemMark):
		return strings.Replace(c.ChatTemplate, userMark, system+"\n"+user, 1)
	}
	// The order matters: text that is filled in is not searched for marks again.
	before, after, _ := strings.Cut(c.ChatTemplate, systemMark)
	return before + system + strings.Replace(after, userMark, user, 1)
}

// rules is what all prompts begin with, so that engines keep it in their prefix cache.
func rules(m *diplomacy.Map) string {
	centers := m.Centers()
	return fmt.Sprintf(`You command one power in Diplomacy, without messages. %d of %d supply centres win.
All orders resolve at once. Equal force bounces, each support adds one, an attack cuts support. A unit that ends the fall on a centre takes it; in winter units are built or removed to match centres.
Orders: A PAR H (hold), A PAR - BUR (move), A LON - BRE VIA with F ENG C A LON - BRE (convoy), A PAR S A MAR or A PAR S A MAR - BUR (support), A PAR R PIC (retreat), A PAR D (disband), F STP/NC B (build), WAIVE (no build).
Answer with one order per line for the listed units, in their order.
`, m.VictoryCenters(), centers.Len())
}

// board describes the position to all powers alike.
func board(s *diplomacy.State, lastYear int32, history []string) string {
	m := s.Map()
	var b []byte
	for _, line := range history {
		b = append(append(b, line...), '\n')
	}
	b = fmt.Appendf(b, "%s, %s. The game ends after %d. Powers, units; centres:\n", s.Phase(),
		phaseWords(s.Phase()), lastYear)
	for p, name := range m.Powers() {
		power := diplomacy.Power(p)
		if s.Eliminated(power) {
			continue
		}
		b = append(b, name...)
		for u := range s.Units(power) {
			b = append(append(b, ' '), m.UnitString(u)...)
		}
		for d := range s.Dislodged(power) {
			b = append(append(b, ", dislodged "...), m.UnitString(d.Unit)...)
		}
		b = appendCenters(append(b, ';'), s, power)
		b = append(b, '\n')
	}
	if s.CenterCount(diplomacy.NoPower) > 0 {
		b = append(appendCenters(append(b, "Neutral;"...), s, diplomacy.NoPower), '\n')
	}
	return string(b)
}

func phaseWords(p diplomacy.Phase) string {
	switch {
	case p.Type == diplomacy.Adjustment:
		return "builds and removals"
	case p.Type == diplomacy.Retreats:
		return "retreats"
	case p.Season == diplomacy.Spring:
		return "spring moves"
	}
	return "fall moves"
}

func appendCenters(b []byte, s *diplomacy.State, p diplomacy.Power) []byte {
	none := true
	for at := range s.Centers(p) {
		b = append(append(b, ' '), s.Map().ProvinceID(at)...)
		none = false
	}
	if none {
		return append(b, " none"...)
	}
	return b
}

// task says what one power has to decide. Its lines are in the order of the constraint's.
func (c PromptConfig) task(s *diplomacy.State, o diplomacy.Options) string {
	m := s.Map()
	b := fmt.Appendf(nil, "\nYou are %s. ", m.PowerName(o.Power))
	b = appendQuestion(b, s, o)
	for i := range o.Sites {
		b = c.appendSite(b, s, &o.Sites[i])
	}
	if c.Threats {
		b = appendThreats(b, s, o.Power)
	}
	return string(append(b, "Orders:\n"...))
}

func appendQuestion(b []byte, s *diplomacy.State, o diplomacy.Options) []byte {
	switch {
	case s.Phase().Type == diplomacy.Movement:
		return append(b, "Order your units:\n"...)
	case s.Phase().Type == diplomacy.Retreats:
		return append(b, "Retreat or disband your dislodged units:\n"...)
	case o.MayWaive:
		return fmt.Appendf(b, "Build %d in your free home centres; WAIVE comes last:\n", o.Count)
	}
	return fmt.Appendf(b, "Remove %d of your units:\n", o.Count)
}

func (c PromptConfig) appendSite(b []byte, s *diplomacy.State, site *diplomacy.Site) []byte {
	m := s.Map()
	isBuild := site.Unit.Kind == 0
	if isBuild {
		b = append(b, m.PlaceName(site.Unit.Place)...)
	} else {
		b = append(b, m.UnitString(site.Unit)...)
	}
	switch {
	case isBuild:
		b = appendOrders(b, m, site.Orders, 0)
	case c.LegalOrders && s.Phase().Type != diplomacy.Adjustment:
		b = appendOrders(b, m, site.Orders, len(m.UnitString(site.Unit))+1)
	case s.Phase().Type == diplomacy.Retreats:
		b = appendDestinations(b, m, site.Orders, diplomacy.Retreat)
	case c.Neighbours && s.Phase().Type == diplomacy.Movement:
		b = appendDestinations(b, m, site.Orders, diplomacy.Move)
	}
	return append(b, '\n')
}

// appendOrders lists orders without their first skip bytes, in which the unit is named.
func appendOrders(b []byte, m *diplomacy.Map, orders []diplomacy.Order, skip int) []byte {
	for i, o := range orders {
		separator := ", "
		if i == 0 {
			separator = ": "
		}
		b = append(append(b, separator...), m.OrderString(o)[skip:]...)
	}
	return b
}

// appendDestinations lists where the orders of one verb lead without a convoy.
func appendDestinations(b []byte, m *diplomacy.Map, orders []diplomacy.Order, verb diplomacy.Verb) []byte {
	b = append(b, ':')
	for _, o := range orders {
		if o.Verb == verb && !o.Via {
			b = append(append(b, ' '), m.PlaceName(o.Dest)...)
		}
	}
	return b
}

// appendThreats names the own units and centres that foreign units could move to, and who could.
func appendThreats(b []byte, s *diplomacy.State, p diplomacy.Power) []byte {
	m := s.Map()
	var own diplomacy.ProvinceSet
	for u := range s.Units(p) {
		own.Add(m.Province(u.Place))
	}
	for at := range s.Centers(p) {
		own.Add(at)
	}
	b = append(b, "In reach of others:"...)
	found := false
	for at := range own.All() {
		var from []string
		for u := range s.AllUnits() {
			if reach := m.Reach(u.Kind, u.Place); u.Power != p && reach.Has(at) {
				from = append(from, m.UnitString(u))
			}
		}
		if len(from) > 0 {
			b = fmt.Appendf(b, " %s (%s)", m.ProvinceID(at), strings.Join(from, ", "))
			found = true
		}
	}
	if !found {
		b = append(b, " none"...)
	}
	return append(b, '\n')
}

// historyLine is one phase as prompts tell of it: every order, and what became of those that failed.
func historyLine(before *diplomacy.State, out *diplomacy.Outcome) string {
	m := before.Map()
	b := []byte(before.Phase().String())
	for p, name := range m.Powers() {
		first := true
		for _, u := range out.Units {
			if u.Unit.Power != diplomacy.Power(p) {
				continue
			}
			if first {
				b = append(append(append(b, "; "...), name...), ':')
				first = false
			} else {
				b = append(b, ',')
			}
			b = m.AppendOrder(append(b, ' '), u.Order)
			if u.Result != 0 {
				b = fmt.Appendf(b, " (%s)", strings.Join(u.Result.Words(), ", "))
			}
		}
	}
	return string(b)
}
