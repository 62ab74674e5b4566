package diplomacyview

import (
	"maps"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/game/diplomacy"
)

// line is what a table says of one power in one phase.
type line struct {
	power  string
	orders []order // or, in a position that nobody has given orders in, where its units stand
}

// readLines makes the lines of a saved phase: checked against m, or as they were saved if m is nil.
func readLines(m *diplomacy.Map, powers []string, saved *diplomacy.SavedPhase) (diplomacy.Phase, []line, error) {
	if m == nil {
		p, err := diplomacy.ParsePhase(saved.Name)
		return p, plainLines(p, powers, saved), err
	}
	p, err := readPhase(m, saved)
	if err != nil {
		return diplomacy.Phase{}, nil, err
	}
	return p.state.Phase(), p.lines(), nil
}

func (p *phase) lines() []line {
	var lines []line
	for i, name := range p.state.Map().Powers() {
		power := diplomacy.Power(i)
		list := p.orders[i]
		if !p.played() {
			list = units(p.state, power)
		}
		if len(list) > 0 || p.state.MustAct(power) {
			lines = append(lines, line{name, list})
		}
	}
	return lines
}

func units(s *diplomacy.State, p diplomacy.Power) []order {
	var list []order
	for u := range s.Units(p) {
		list = append(list, order{text: s.Map().UnitString(u)})
	}
	for d := range s.Dislodged(p) {
		list = append(list, order{text: s.Map().UnitString(d.Unit), results: []string{"dislodged"}})
	}
	return list
}

// powersOf lists the powers of a game on any board.
func powersOf(game *diplomacy.SavedGame) []string {
	names := map[string]bool{}
	for i := range game.Phases {
		for name := range game.Phases[i].State.Units {
			names[name] = true
		}
		for name := range game.Phases[i].State.Centers {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// plainLines takes a phase at its word.
func plainLines(p diplomacy.Phase, powers []string, saved *diplomacy.SavedPhase) []line {
	played := false
	for _, list := range saved.Orders {
		played = played || len(list) > 0
	}
	var lines []line
	for _, name := range powers {
		var list []order
		if played {
			list = plainOrders(p, saved, saved.Orders[name])
		} else {
			list = plainUnits(saved.State.Units[name])
		}
		if len(list) > 0 || mustAct(p, name, &saved.State) {
			lines = append(lines, line{name, list})
		}
	}
	return lines
}

func plainOrders(p diplomacy.Phase, saved *diplomacy.SavedPhase, texts []string) []order {
	var list []order
	for _, text := range texts {
		meant := p.Type == diplomacy.Movement || strings.HasSuffix(strings.TrimSpace(text), " D")
		results := slices.DeleteFunc(saved.ResultsOf(text), func(r string) bool { return meant && r == "disband" })
		list = append(list, order{text: text, results: results})
	}
	return list
}

func plainUnits(texts []string) []order {
	var list []order
	for _, text := range texts {
		unit, dislodged := strings.CutPrefix(text, "*")
		o := order{text: unit}
		if dislodged {
			o.results = []string{"dislodged"}
		}
		list = append(list, o)
	}
	return list
}

// mustAct reports whether a power without orders could have given some.
func mustAct(p diplomacy.Phase, name string, s *diplomacy.Snapshot) bool {
	switch p.Type {
	case diplomacy.Movement:
		return len(s.Units[name]) > 0
	case diplomacy.Retreats:
		return len(s.Retreats[name]) > 0
	case diplomacy.Adjustment:
		return s.Builds[name].Count != 0
	}
	return false
}
