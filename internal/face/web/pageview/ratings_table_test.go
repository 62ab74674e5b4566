package pageview

import (
	"reflect"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis/runcurve"
	"github.com/millrace/millrace/internal/face/web/runhistory"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

func TestRatingsTable(t *testing.T) {
	t.Parallel()
	if ratingsOf(nil) != nil {
		t.Error("no games, and a table")
	}
	step := func(orders map[rollout.Order]int) runhistory.Step {
		return runhistory.Step{Curve: runcurve.Step{Results: []steprecord.VersionResults{{
			Results: steprecord.Results{Orders: orders}}}}}
	}
	got := ratingsOf([]runhistory.Step{step(map[rollout.Order]int{"v1@X > random@O": 5}),
		step(map[rollout.Order]int{"v1@X > random@O": 4, "random@O > v1@X": 1, "v2@X = random@O": 10})})
	var names []string
	for _, row := range got.Players {
		names = append(names, row.Name)
	}
	if !reflect.DeepEqual(names[0], "v1") || len(names) != 3 {
		t.Fatalf("players %v, want v1 first of three", names)
	}
	for i, name := range names {
		want := map[string]HeatCell{"v1": {"10", "lost2"}, "v2": {"50", "won0"}, "random": {}}[name]
		for _, row := range got.Players {
			if row.Name == "random" && row.Cells[i] != want {
				t.Errorf("random against %s: %v, want %v", name, row.Cells[i], want)
			}
		}
	}
}
