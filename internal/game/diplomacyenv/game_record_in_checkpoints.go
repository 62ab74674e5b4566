package diplomacyenv

import (
	"fmt"

	"github.com/millrace/millrace/internal/game/diplomacy"
)

// record is a game as scenarios and checkpoints keep it: where it began and what was ordered. The rules make the rest
// of it again.
type record struct {
	Map    string              `json:"map"`
	Start  *diplomacy.Position `json:"start,omitempty"`
	Seed   int64               `json:"seed"`
	Sample int                 `json:"sample"`
	Warmup int                 `json:"warmup"` // how many of the phases were played before the fork
	// WarmUpTo is set before the fork while learners play: how many phases the warm-up is to have.
	WarmUpTo *int     `json:"warm_up_to,omitempty"`
	Phases   []played `json:"phases"`
}

// played is one phase: its name, and each power's orders, of those that gave any.
type played struct {
	Name   string              `json:"name"`
	Orders map[string][]string `json:"orders"`
}

func newPlayed(s *diplomacy.State, orders [][]diplomacy.Order) played {
	p := played{Name: s.Phase().String(), Orders: map[string][]string{}}
	for power, list := range orders {
		name := s.Map().PowerName(diplomacy.Power(power))
		for _, o := range list {
			p.Orders[name] = append(p.Orders[name], s.Map().OrderString(o))
		}
	}
	return p
}

// orders reads the orders of a recorded phase. They were legal when they were recorded, so that an order that is not
// tells of a damaged record, or of one made under other rules.
func (p played) orders(s *diplomacy.State) ([][]diplomacy.Order, error) {
	if now := s.Phase().String(); p.Name != now {
		return nil, fmt.Errorf("phase %s is recorded where the rules come to %s", p.Name, now)
	}
	orders := make([][]diplomacy.Order, len(s.Map().Powers()))
	for name, list := range p.Orders {
		power, ok := s.Map().PowerByName(name)
		if !ok {
			return nil, fmt.Errorf("phase %s: no power %q", p.Name, name)
		}
		for _, text := range list {
			o, err := s.ParseOrder(power, text)
			if err != nil {
				return nil, fmt.Errorf("phase %s: %s: %w", p.Name, name, err)
			}
			orders[power] = append(orders[power], o)
		}
	}
	return orders, nil
}

func (r record) start(m *diplomacy.Map) (*diplomacy.State, error) {
	if r.Map != "" && r.Map != m.Name() {
		return nil, fmt.Errorf("played on map %q, not on %q", r.Map, m.Name())
	}
	if r.Warmup < 0 || r.Warmup > len(r.Phases) {
		return nil, fmt.Errorf("a warm-up of %d of %d phases", r.Warmup, len(r.Phases))
	}
	if r.Start == nil {
		return diplomacy.NewGame(m), nil
	}
	return diplomacy.NewState(m, *r.Start)
}
