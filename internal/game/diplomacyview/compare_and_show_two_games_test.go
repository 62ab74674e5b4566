package diplomacyview

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/game/diplomacy"
	"github.com/millrace/millrace/internal/game/gamelist"
)

// game is a saved game with France's orders in each phase; "" ends the phases that were played.
func game(phases ...string) *diplomacy.SavedGame {
	g := &diplomacy.SavedGame{ID: "g", Map: "standard"}
	for i, orders := range phases {
		p := diplomacy.SavedPhase{Name: []string{"S1901M", "F1901M", "S1902M"}[i]}
		if orders != "" {
			p.Orders = map[string][]string{"FRANCE": strings.Split(orders, ",")}
			p.Results = map[string][]string{"A PAR": {"bounce"}}
		}
		g.Phases = append(g.Phases, p)
	}
	return g
}

func turns(texts ...string) gamelist.Turns {
	t := gamelist.Turns{Agents: []gamelist.AgentView{{Agent: "X", Reward: float64(len(texts))}}}
	for i, text := range texts {
		t.Turns = append(t.Turns, gamelist.TurnView{Turn: i, Phase: fmt.Sprint("move ", i), Agent: "X", Text: text})
	}
	return t
}

func TestWhereTwoGamesPart(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		a, b  Played
		same  int
		phase string
		marks string
	}{
		{"alike, in another order", Played{Game: game("A PAR H,F BRE H", "")}, Played{Game: game("F BRE H,A PAR H", "")},
			1, "", ""},
		{"in the second phase", Played{Game: game("F BRE H", "F BRE - ENG", "")},
			Played{Game: game("F BRE H", "F BRE - PIC", "")}, 1, "F1901M", "FRANCE [F BRE - ENG] [F BRE - PIC]"},
		{"one goes on", Played{Game: game("F BRE H", "")}, Played{Game: game("F BRE H", "A PAR - BUR", "")},
			1, "F1901M", "FRANCE [] [A PAR - BUR (bounce)]"},
		{"without phases, by the answers", Played{Turns: turns("b2", "a1")}, Played{Turns: turns("b2", "c3\nreally")},
			1, "move 1", "X [a1] [c3 really]"},
		{"nothing yet", Played{}, Played{}, 0, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := Compare(tt.a, tt.b)
			var marks []string
			for _, s := range c.Sides {
				if s.Differs() {
					marks = append(marks, fmt.Sprint(s.Agent, " ", s.A, " ", s.B))
				}
			}
			if c.Same != tt.same || c.Phase != tt.phase || strings.Join(marks, "; ") != tt.marks {
				t.Errorf("%d alike, part in %q: %q", c.Same, c.Phase, marks)
			}
		})
	}
}

// TestDiffIsHarmlessAndFits: what a model says stays in its column.
func TestDiffIsHarmlessAndFits(t *testing.T) {
	t.Parallel()
	hostile := "\x1b[2J\u009b\u202e" + strings.Repeat("x", 500)
	var b strings.Builder
	err := ShowDiff(&b, Played{Name: "0/0", Turns: turns(hostile)}, Played{Name: "0/1", Turns: turns("b2")},
		ShowOptions{Width: 80})
	if err != nil || strings.ContainsAny(b.String(), "\x1b\u009b\u202e") {
		t.Errorf("%v: %q", err, b.String())
	}
	for line := range strings.SplitSeq(b.String(), "\n") {
		if len([]rune(line)) > 80 {
			t.Errorf("wider than 80: %s", line)
		}
	}
}
