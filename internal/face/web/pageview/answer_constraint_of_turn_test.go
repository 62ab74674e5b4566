package pageview

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/game/diplomacy"

	"github.com/millrace/millrace/internal/rollout/runspec"
)

// What an answer was held to is made again of the position, site by site.
func TestConstraintOf(t *testing.T) {
	t.Parallel()
	m := diplomacy.Standard()
	game := diplomacy.NewSavedGame(m, "demo/1/0")
	game.Finish(diplomacy.NewGame(m))
	phase := game.Phases[0].Name
	for _, tt := range []struct{ options, want string }{
		{"", "regex"}, {`{"constraint": "grammar"}`, "grammar"}, {`{"constraint": "none"}`, "dropped and counted"},
	} {
		c := ConstraintOf(runspec.Environment{Kind: "diplomacy", Options: json.RawMessage(tt.options)}, game, phase, "FRANCE")
		if !strings.Contains(c.Says, tt.want) || len(c.Sites) != 3 {
			t.Errorf("%s: %q with %d sites", tt.options, c.Says, len(c.Sites))
			continue
		}
		if i := slices.IndexFunc(c.Sites, func(s SiteOrders) bool { return s.Site == "A PAR" }); i < 0 ||
			!slices.Contains(c.Sites[i].Orders, "A PAR - BUR") || slices.Contains(c.Sites[i].Orders, "A PAR - LON") {
			t.Errorf("%s: %+v", tt.options, c.Sites)
		}
	}
	if c := ConstraintOf(runspec.Environment{}, game, phase, "<b>"); len(c.Sites) > 0 ||
		!strings.Contains(c.Says, "no power") {
		t.Errorf("nobody's: %+v", c)
	}
	if c := ConstraintOf(runspec.Environment{Kind: "tictactoe"}, nil, "", "X"); c.Says == "" || len(c.Sites) > 0 {
		t.Errorf("of another environment: %+v", c)
	}
}
