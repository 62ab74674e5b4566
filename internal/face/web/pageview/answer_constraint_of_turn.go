package pageview

import (
	"encoding/json"
	"fmt"

	"github.com/millrace/millrace/internal/game/diplomacy"

	"github.com/millrace/millrace/internal/rollout/runspec"
)

// Constraint is what an answer was held to: made again of the position, so that
// the orders are shown site by site.
type Constraint struct {
	Says  string
	Sites []SiteOrders
}

// SiteOrders is a unit, or a centre to build in, with the orders that it might be given.
type SiteOrders struct {
	Site   string
	Orders []string
}

// constraintKind is how a run's answers are forced into a language, as its environment's options say.
func constraintKind(env runspec.Environment) string {
	var options struct {
		Constraint string `json:"constraint"`
	}
	if len(env.Options) > 0 && json.Unmarshal(env.Options, &options) != nil {
		return ""
	}
	return options.Constraint
}

// ConstraintOf is what the answer of an agent in a phase was held to; saved is nil of a game that is no Diplomacy.
func ConstraintOf(env runspec.Environment, saved *diplomacy.SavedGame, phaseName, agent string) Constraint {
	kind := constraintKind(env)
	if saved == nil {
		if kind == "" {
			return Constraint{Says: "its environment's own"}
		}
		return Constraint{Says: harmless(kind)}
	}
	c := Constraint{Says: "regex: one legal order for each site below"}
	switch kind {
	case "none":
		c.Says = "none: bad orders are dropped and counted; legal were those below"
	case "grammar":
		c.Says = "grammar: one legal order for each site below"
	}
	for i := range saved.Phases {
		if saved.Phases[i].Name == phaseName {
			sites, err := legalOrders(&saved.Phases[i], agent)
			if err != nil {
				c.Says += fmt.Sprintf(" (they cannot be listed: %v)", err)
			}
			c.Sites = sites
		}
	}
	return c
}

func legalOrders(p *diplomacy.SavedPhase, agent string) ([]SiteOrders, error) {
	m := diplomacy.Standard()
	state, err := m.Restore(p.State)
	if err != nil {
		return nil, err
	}
	power, known := m.PowerByName(agent)
	if !known {
		return nil, fmt.Errorf("the map has no power %s", harmless(agent))
	}
	var all []SiteOrders
	for _, o := range diplomacy.NewGenerator(m).Options(state) {
		if o.Power != power {
			continue
		}
		for _, site := range o.Sites {
			one := SiteOrders{Site: m.UnitString(site.Unit)}
			for _, order := range site.Orders {
				one.Orders = append(one.Orders, m.OrderString(order))
			}
			all = append(all, one)
		}
		if o.MayWaive {
			all = append(all, SiteOrders{Site: "any of them", Orders: []string{"WAIVE"}})
		}
	}
	return all, nil
}
