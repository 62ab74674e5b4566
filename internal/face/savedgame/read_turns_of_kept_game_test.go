package savedgame

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/rollout"
)

// Turns stand in the order of the game: by the phases that agents share, or, where they share none, by turns.
func TestTurnsAreInOrder(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		phases map[string]string // of each agent
		prompt map[string]int    // tokens of each agent's first
		want   string
	}{
		{"phases that are shared", map[string]string{"A": "S1 F1 S2", "B": "S1 W1 S2"}, nil, "S1 S1 W1 F1 S2 S2"},
		{"by turns, the other began", map[string]string{"O": "O1 O2", "X": "X1 X2 X3"}, nil, "X1 O1 X2 O2 X3"},
		{"by turns, as many for each", map[string]string{"O": "O1 O2", "X": "X1 X2"}, map[string]int{"O": 9, "X": 7},
			"X1 O1 X2 O2"},
		{"one agent", map[string]string{"A": "1 2 3"}, nil, "1 2 3"},
		{"nobody decided", nil, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var all []rollout.Trajectory
			for _, agent := range []string{"A", "B", "O", "X"} {
				one := rollout.Trajectory{Agent: agent}
				for _, phase := range strings.Fields(tt.phases[agent]) {
					one.Turns = append(one.Turns, rollout.Turn{Phase: phase, PromptTokenIDs: make([]int32, tt.prompt[agent])})
				}
				if len(one.Turns) > 0 {
					all = append(all, one)
				}
			}
			var got []string
			for _, turn := range inOrder(all) {
				got = append(got, turn.Phase)
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
