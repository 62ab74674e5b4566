package diplomacy

import (
	"slices"
	"strings"
)

// A SavedGame is a game as the python package saves it: the phases that were played, and at the end the position that
// was reached.
type SavedGame struct {
	ID     string       `json:"id"`
	Map    string       `json:"map"`
	Rules  []string     `json:"rules"`
	Phases []SavedPhase `json:"phases"`

	destroyed []string // by the phase before: the package reports them with the next one
}

// A SavedPhase is a position, what each power ordered and what came of it by unit. Orders are nil while none are given.
type SavedPhase struct {
	Name     string              `json:"name"`
	State    Snapshot            `json:"state"`
	Orders   map[string][]string `json:"orders"`
	Results  map[string][]string `json:"results"`
	Messages []SavedMessage      `json:"messages"`
}

// ResultsOf lists the results of the unit that an order is given to: "A PAR - BUR" is of "A PAR".
func (p *SavedPhase) ResultsOf(order string) []string {
	words := strings.Fields(order)
	if len(words) < 2 {
		return nil
	}
	results := p.Results[words[0]+" "+words[1]]
	return slices.DeleteFunc(slices.Clone(results), func(r string) bool { return r == "" })
}

// A SavedMessage is what one power wrote to another, or to GLOBAL.
type SavedMessage struct {
	Sender    string `json:"sender"`
	Recipient string `json:"recipient"`
	TimeSent  int64  `json:"time_sent"`
	Phase     string `json:"phase"`
	Message   string `json:"message"`
}

// NewSavedGame is a game on m of which nothing has been played.
func NewSavedGame(m *Map, id string) *SavedGame {
	return &SavedGame{ID: id, Map: m.name, Rules: []string{}}
}

// Add appends a phase that has been played: position s, the orders given in it, and their outcome.
func (g *SavedGame) Add(s *State, orders [][]Order, out *Outcome) {
	p := g.phase(s)
	for i, name := range s.m.powers {
		p.Orders[name] = []string{}
		if i < len(orders) {
			for _, o := range orders[i] {
				p.Orders[name] = append(p.Orders[name], s.m.OrderString(o))
			}
		}
	}
	for _, u := range out.Units {
		if u.Order.Verb == Waive {
			continue
		}
		unit := s.m.UnitString(u.Unit)
		p.Results[unit] = append(listed(p.Results[unit]), g.words(s, u.Result)...)
	}
	for _, unit := range g.destroyed {
		p.Results[unit] = append(listed(p.Results[unit]), "disband")
	}
	g.destroyed = nil
	for _, u := range out.Destroyed {
		g.destroyed = append(g.destroyed, s.m.UnitString(u))
	}
	g.Phases = append(g.Phases, p)
}

// words are the results of a unit; where units are built and removed the package writes an empty word for success.
func (g *SavedGame) words(s *State, r Result) []string {
	if r == 0 && s.phase.Type != Movement {
		return []string{""}
	}
	return r.Words()
}

// Finish appends the position that was reached, in which nothing has been ordered.
func (g *SavedGame) Finish(s *State) {
	p := g.phase(s)
	for _, name := range s.m.powers {
		p.Orders[name] = nil
	}
	g.Phases = append(g.Phases, p)
}

func (g *SavedGame) phase(s *State) SavedPhase {
	snap := s.Snapshot()
	snap.GameID, snap.Rules = g.ID, g.Rules
	return SavedPhase{
		Name: snap.Name, State: snap,
		Orders: map[string][]string{}, Results: map[string][]string{}, Messages: []SavedMessage{},
	}
}
