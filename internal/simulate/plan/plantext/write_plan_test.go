package plantext_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/simulate/plan"
	"github.com/millrace/millrace/internal/simulate/plan/plantext"
)

var update = flag.Bool("update", false, "rewrite the plan in testdata")

// What a person reads is kept in testdata: go test -update rewrites it.
func TestWrite(t *testing.T) {
	t.Parallel()
	cell := func(engines, depth int, sec float64) plan.Cell {
		return plan.Cell{Setting: plan.Setting{Engines: engines, Depth: depth, Groups: 8, Samples: 6},
			Step: stat.Interval{Mean: sec, Half: 1.5, N: 5}, StarvedShare: 1 - 150/sec, StalenessMean: float64(depth),
			StalenessMax: int64(depth), BusyShare: 1, SlotShare: 0.75, InputTPS: 2300, OutputTPS: 120, EngineHours: 0.16,
			StepCost: 0.3151, TokenCost: 1.234, PrefillSec: 300, BeforeSec: 150.04}
	}
	p := &plan.Plan{Run: "r", Seeds: 5, Price: 1.89, Conditions: []string{"1 engine is lost at step 20"},
		Cells: []plan.Cell{cell(2, 2, 300), cell(4, 2, 151), cell(4, 9, 150)}, Notes: []string{"a note"}}
	p.Cells[1].Frontier, p.Cells[2].NeedsStaleness, p.Cells[0].Unsteady = true, 9, true
	p.Cells = append(p.Cells, plan.Cell{Setting: plan.Setting{Engines: 1, Depth: 2, Groups: 8, Samples: 6},
		Refused: "takes the last engine away"})
	now, without := p.Cells[0], cell(4, 2, 150)
	p.Now, p.Unchanged = &now, &without
	p.Recommendations = []plan.Recommendation{{Groups: 8, Samples: 6, Setting: &p.Cells[1].Setting, Meets: true,
		Text: "4 engines at depth 2: 151 s", Reasons: []string{"now: 2 engines"}}}
	var b strings.Builder
	if err := plantext.Write(&b, p, 0); err != nil {
		t.Fatal(err)
	}
	const path = "testdata/plan.txt"
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}
