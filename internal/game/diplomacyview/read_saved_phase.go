package diplomacyview

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/game/diplomacy"
)

// phase is one phase of a game, ready to be shown.
type phase struct {
	state  *diplomacy.State
	orders [][]order // by power; nil where nothing was ordered yet
}

// order is one order with what came of it.
type order struct {
	text    string
	order   diplomacy.Order // the zero order if text is none that the rules allow
	results []string        // empty: success
}

func (o order) failed() bool { return len(o.results) > 0 }

func (o order) has(result string) bool { return slices.Contains(o.results, result) }

// readPhase makes sense of a saved phase.
func readPhase(m *diplomacy.Map, saved *diplomacy.SavedPhase) (phase, error) {
	s, err := m.Restore(saved.State)
	if err != nil {
		return phase{}, fmt.Errorf("phase %s: %w", saved.Name, err)
	}
	p := phase{state: s, orders: make([][]order, len(m.Powers()))}
	for name, list := range saved.Orders {
		power, ok := m.PowerByName(name)
		if !ok {
			return phase{}, fmt.Errorf("phase %s: no power %q", saved.Name, name)
		}
		for _, text := range list {
			p.orders[power] = append(p.orders[power], readOrder(s, power, text, saved.Results))
		}
	}
	return p, nil
}

func readOrder(s *diplomacy.State, power diplomacy.Power, text string, results map[string][]string) order {
	o := order{text: text}
	parsed, err := s.ParseOrder(power, text)
	if err != nil {
		o.results = []string{"void"}
		return o
	}
	o.order = parsed
	if parsed.Verb == diplomacy.Waive {
		return o
	}
	unit := s.Map().UnitString(diplomacy.Unit{Kind: parsed.Kind, Place: parsed.Place})
	for _, word := range results[unit] {
		if word != "" && !(word == "disband" && said(s.Phase(), parsed)) {
			o.results = append(o.results, word)
		}
	}
	return o
}

// said reports whether "disband" is no news: it was ordered, or it is of another unit, since the package reports units
// that were destroyed for want of a retreat with the next phase, under the province that somebody else holds by then.
func said(p diplomacy.Phase, o diplomacy.Order) bool {
	return o.Verb == diplomacy.Disband || p.Type == diplomacy.Movement
}

// played reports whether anybody has given an order, or could have.
func (p *phase) played() bool {
	return slices.ContainsFunc(p.orders, func(list []order) bool { return len(list) > 0 })
}

// orderOf finds the order given to the unit in a province.
func (p *phase) orderOf(at diplomacy.Province) (order, bool) {
	for _, list := range p.orders {
		for _, o := range list {
			if o.order.Verb != 0 && o.order.Verb != diplomacy.Waive && p.state.Map().Province(o.order.Place) == at {
				return o, true
			}
		}
	}
	return order{}, false
}

// title says what a phase is, in words.
func title(p diplomacy.Phase) string {
	season := map[diplomacy.Season]string{diplomacy.Spring: "Spring", diplomacy.Fall: "Fall",
		diplomacy.Winter: "Winter"}[p.Season]
	switch p.Type {
	case diplomacy.Movement:
		return fmt.Sprintf("%s %d, moves", season, p.Year)
	case diplomacy.Retreats:
		return fmt.Sprintf("%s %d, retreats", season, p.Year)
	case diplomacy.Adjustment:
		return fmt.Sprintf("%s %d, adjustments", season, p.Year)
	}
	return "The game is over"
}

// displayName is a power's name as people write it.
func displayName(name string) string {
	if name == "" {
		return name
	}
	return name[:1] + strings.ToLower(name[1:])
}

// mapOf is the board of a saved game; false if it is not the standard one.
func mapOf(game *diplomacy.SavedGame) (*diplomacy.Map, bool) {
	m := diplomacy.Standard()
	if game.Map != "" && game.Map != m.Name() {
		return nil, false
	}
	return m, true
}
