package runstatus

import (
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/rollout"
)

func TestTermsOfTrainers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		begin []Term
		want  []Term
	}{
		{"a successor goes on", []Term{{0, 1}, {3, 2}}, []Term{{0, 1}, {3, 2}}},
		{"one goes back", []Term{{0, 1}, {3, 2}, {2, 3}}, []Term{{0, 1}, {2, 3}}},
		{"one goes back to the beginning", []Term{{0, 1}, {3, 2}, {0, 4}}, []Term{{0, 4}}},
		{"one announces itself again where it was", []Term{{2, 1}, {2, 2}}, []Term{{2, 2}}},
		{"told late", []Term{{0, 1}, {3, 5}, {1, 4}, {2, 5}}, []Term{{0, 1}, {3, 5}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var m Mark
			for _, term := range tt.begin {
				m.Begin(term.Generation, term.From)
			}
			if !slices.Equal(m.Terms, tt.want) {
				t.Errorf("got %v, want %v", m.Terms, tt.want)
			}
		})
	}
	var m Mark
	for i := range 100 {
		m.Begin(rollout.TrainerGeneration(i+1), rollout.Step(i))
	}
	if len(m.Terms) != keptTerms || m.LastTerm() != 100 {
		t.Errorf("%d terms are kept, the last one of generation %d", len(m.Terms), m.LastTerm())
	}
}
