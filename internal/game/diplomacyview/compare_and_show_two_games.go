package diplomacyview

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/game/diplomacy"
	"github.com/millrace/millrace/internal/game/gamelist"
	columns "github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/kit/termtext"
)

// Played is a game as two are compared.
type Played struct {
	Name  string // GROUP/EPISODE
	Game  *diplomacy.SavedGame
	Turns gamelist.Turns
}

// Comparison is where two games part, and what each brought.
type Comparison struct {
	A, B   string        `json:"-"`
	Games  [2]string     `json:"games"`
	Same   int           `json:"phases_alike"`    // before they part
	Phase  string        `json:"phase,omitempty"` // in which they part; empty: they do not
	Sides  []SideBySide  `json:"orders"`          // of that phase, by agent
	Reward []RewardsOfIt `json:"rewards"`
}

// SideBySide is what an agent did in two games.
type SideBySide struct {
	Agent string   `json:"agent"`
	A     []string `json:"a"`
	B     []string `json:"b"`
}

// Differs reports whether the agent did something else.
func (s SideBySide) Differs() bool { return !slices.Equal(s.A, s.B) }

// RewardsOfIt is an agent's rewards in two games.
type RewardsOfIt struct {
	Agent      string  `json:"agent"`
	A          float64 `json:"reward_a"`
	B          float64 `json:"reward_b"`
	AdvantageA float64 `json:"advantage_a"`
	AdvantageB float64 `json:"advantage_b"`
}

// Compare finds the first phase in which two games part: by their orders, or where the environment saves none by the
// agents' answers.
func Compare(a, b Played) Comparison {
	c := Comparison{A: a.Name, B: b.Name, Games: [2]string{a.Turns.Game, b.Turns.Game}, Sides: []SideBySide{},
		Reward: rewards(a.Turns, b.Turns)}
	of, names := ordersOf(a), phaseNames(a)
	with, others := ordersOf(b), phaseNames(b)
	for i := range max(len(names), len(others)) {
		if i >= len(names) || i >= len(others) || names[i] != others[i] || !sameOrders(of[names[i]], with[names[i]]) {
			c.Phase, c.Sides = partedIn(names, others, i), sides(at(of, names, i), at(with, others, i))
			return c
		}
		c.Same++
	}
	return c
}

func partedIn(a, b []string, i int) string {
	switch {
	case i >= len(a):
		return b[i]
	case i >= len(b) || a[i] == b[i]:
		return a[i]
	}
	return a[i] + " and " + b[i]
}

func at(orders map[string]map[string][]string, names []string, i int) map[string][]string {
	if i >= len(names) {
		return nil
	}
	return orders[names[i]]
}

// phaseNames is the phases that a game has played, in their order.
func phaseNames(p Played) (names []string) {
	if p.Game != nil {
		for i := range p.Game.Phases {
			if p.Game.Phases[i].Orders != nil {
				names = append(names, p.Game.Phases[i].Name)
			}
		}
		return names
	}
	for _, t := range p.Turns.Turns {
		if len(names) == 0 || names[len(names)-1] != t.Phase {
			names = append(names, t.Phase)
		}
	}
	return names
}

// ordersOf is what each agent did in each phase.
func ordersOf(p Played) map[string]map[string][]string {
	orders := map[string]map[string][]string{}
	if p.Game != nil {
		for i := range p.Game.Phases {
			orders[p.Game.Phases[i].Name] = withResults(&p.Game.Phases[i])
		}
		return orders
	}
	for _, t := range p.Turns.Turns {
		if orders[t.Phase] == nil {
			orders[t.Phase] = map[string][]string{}
		}
		orders[t.Phase][t.Agent] = strings.Split(strings.TrimSpace(t.Text), "\n")
	}
	return orders
}

// withResults is the orders of a phase, each with what became of it, in one order: which of its units a power names
// first makes no difference.
func withResults(p *diplomacy.SavedPhase) map[string][]string {
	orders := map[string][]string{}
	parsed, err := diplomacy.ParsePhase(p.Name)
	for power, list := range p.Orders {
		var lines []string
		if err == nil {
			for _, o := range plainOrders(parsed, p, list) {
				text := o.text
				if o.failed() {
					text += " (" + strings.Join(o.results, ", ") + ")"
				}
				lines = append(lines, text)
			}
		} else {
			lines = slices.Clone(list)
		}
		slices.Sort(lines)
		if len(lines) > 0 {
			orders[power] = lines
		}
	}
	return orders
}

func sameOrders(a, b map[string][]string) bool {
	return maps.EqualFunc(a, b, func(x, y []string) bool { return slices.Equal(x, y) })
}

func sides(a, b map[string][]string) []SideBySide {
	agents := slices.Collect(maps.Keys(a))
	for agent := range b {
		if _, known := a[agent]; !known {
			agents = append(agents, agent)
		}
	}
	slices.Sort(agents)
	out := []SideBySide{}
	for _, agent := range agents {
		out = append(out, SideBySide{agent, a[agent], b[agent]})
	}
	return out
}

func rewards(a, b gamelist.Turns) []RewardsOfIt {
	out := []RewardsOfIt{}
	for _, x := range a.Agents {
		for _, y := range b.Agents {
			if x.Agent == y.Agent {
				out = append(out, RewardsOfIt{x.Agent, x.Reward, y.Reward, x.Advantage, y.Advantage})
			}
		}
	}
	return out
}

// ShowDiff writes where two games part.
func ShowDiff(w io.Writer, a, b Played, o ShowOptions) error {
	c := Compare(a, b)
	if o.Format == JSON {
		return writeJSON(w, c)
	}
	var text strings.Builder
	switch {
	case c.Phase == "":
		fmt.Fprintf(&text, "%s and %s are alike in all of their %s.\n", c.A, c.B, plural(c.Same, "phase"))
	case c.Same == 0:
		fmt.Fprintf(&text, "%s and %s part at once, in %s.\n\n", c.A, c.B, termtext.Line(c.Phase))
	default:
		fmt.Fprintf(&text, "%s and %s are alike for %s and part in %s.\n\n", c.A, c.B, plural(c.Same, "phase"),
			termtext.Line(c.Phase))
	}
	if c.Phase != "" {
		sideBySide(&text, c, o)
	}
	if len(c.Reward) > 0 {
		text.WriteByte('\n')
		t := columns.New(columns.Left("AGENT"), columns.Right("REWARD "+c.A), columns.Right(c.B), columns.Right("DIFFERENCE"),
			columns.Right("ADVANTAGE "+c.A), columns.Right(c.B))
		for _, r := range c.Reward {
			t.Row(r.Agent, fmt.Sprintf("%.3f", r.A), fmt.Sprintf("%.3f", r.B), fmt.Sprintf("%+.3f", r.B-r.A),
				fmt.Sprintf("%+.3f", r.AdvantageA), fmt.Sprintf("%+.3f", r.AdvantageB))
		}
		if err := t.Write(&text, o.Width); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// sideBySide writes two columns: what each agent did in one game, and in the other. A line that differs has a mark.
func sideBySide(b *strings.Builder, c Comparison, o ShowOptions) {
	width := o.Width
	if width <= 0 {
		width = defaultWidth
	}
	column := 0
	for _, s := range c.Sides {
		for _, line := range slices.Concat(s.A, s.B) {
			column = max(column, termtext.Width(line))
		}
	}
	const name, mark = 10, 2
	column = max(min(column, (width-name-2*mark-1)/2), 12)
	t := &twoColumns{b, column}
	t.line("", " ", c.A, c.B)
	for _, s := range c.Sides {
		agent := displayName(s.Agent)
		for _, row := range aligned(s.A, s.B) {
			mark := " "
			if row[0] != row[1] {
				mark = "≠"
			}
			t.line(agent, mark, row[0], row[1])
			agent = ""
		}
	}
}

type twoColumns struct {
	b      *strings.Builder
	column int
}

func (t *twoColumns) line(agent, mark, a, b string) {
	cell := func(text string) string { return termtext.Cut(termtext.Line(text), t.column) }
	line := termtext.Pad(termtext.Cut(termtext.Line(agent), 9), 10) + mark + " " +
		termtext.Pad(cell(a), t.column) + "  " + cell(b)
	t.b.WriteString(strings.TrimRight(line, " ") + "\n")
}

// aligned puts two sorted lists beside each other: what is in both on one line, what replaces something on its line.
func aligned(a, b []string) (rows [][2]string) {
	var left, right []string // in one of them only
	for _, x := range a {
		if slices.Contains(b, x) {
			rows = append(rows, [2]string{x, x})
		} else {
			left = append(left, x)
		}
	}
	for _, y := range b {
		if !slices.Contains(a, y) {
			right = append(right, y)
		}
	}
	for i := range max(len(left), len(right)) {
		var row [2]string
		if i < len(left) {
			row[0] = left[i]
		}
		if i < len(right) {
			row[1] = right[i]
		}
		rows = append(rows, row)
	}
	return rows
}
