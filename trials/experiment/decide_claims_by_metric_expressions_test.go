package experiment

import (
	"testing"
)

// someCells finds the values of one part with two axes: of size=2 they vary over three seeds.
func someCells(part string, places []Place, metric string) ([]float64, error) {
	r := Result{Parts: []PartResult{{Name: "p"}}}
	for _, c := range []struct {
		size, mode string
		values     []float64
	}{{"1", "a b", []float64{10}}, {"1", "c", []float64{20}}, {"2", "a b", []float64{9, 10, 11}},
		{"2", "c", []float64{29, 31, 30}}} {
		r.Parts[0].Cells = append(r.Parts[0].Cells, CellResult{At: []Place{{"size", c.size}, {"mode", c.mode}},
			Metrics: map[string][]Value{"makespan": c.values}})
	}
	return r.find(part, places, metric)
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	const a1, c1, a2, c2 = "p(`size=1, mode=a b`).makespan", "p(`size=1, mode=c`).makespan", "p(`size=2, mode=a b`).makespan",
		"p(`size=2, mode=c`).makespan"
	for _, tt := range []struct {
		check string
		want  Verdict
	}{
		{a1 + " < " + c1, Holds},
		{a1 + " > " + c1, DoesNotHold},
		{a1 + " < 10", DoesNotHold},
		{a1 + " <= 10", Holds},
		{c1 + " >= 2 * " + a1, Holds},
		{a2 + " < " + c2, Holds},
		{a2 + " < " + a1, Undecided}, // 9 to 11 against 10: chance decides
		{a2 + " < 8", Undecided},     // the interval of three values reaches below 8
		{a2 + " < 5", DoesNotHold},
		{"near(" + a1 + ", 10.05, 0.01)", Holds},
		{"near(" + a1 + ", 20, 0.01)", DoesNotHold},
		{"near(" + c2 + ", 30, 0.01)", Undecided},
		{"near(" + c2 + ", 30, 0.5)", Holds},
		{a1 + " < 11 && " + c1 + " < 11", DoesNotHold},
		{a1 + " < 11 || " + c1 + " < 11", Holds},
		{a2 + " < " + a1 + " || " + a1 + " < 11", Holds},
		{"!(" + a2 + " < " + a1 + ")", Undecided},
		{"!(" + a1 + " < 5)", Holds},
		{"max(1, 3) - min(1, 3) > 1.5 && abs(1 - 3) >= 2 && -1 < 0", Holds},
		{"2 + 3 * 4 - 10 / 5 >= 12 && 12 >= 2 + 3 * 4 - 10 / 5", Holds},
		{"0 / 0 < 1", Undecided},
	} {
		got, err := lookup(someCells).decide(tt.check)
		if err != nil || got != tt.want {
			t.Errorf("%s: %s, %v; want %s", tt.check, got, err, tt.want)
		}
	}
}

func TestExpressionsAreRefused(t *testing.T) {
	t.Parallel()
	for _, check := range []string{"", "1 +", "1 + 2", "(1 < 2", "(1 < 2) < 3", "near(1, 2) > 1", "p(`size`).makespan < 1",
		"p(`size=1`) < 1", "q.makespan < 1", "p(`siz=1`).makespan < 1", "p(`size=3`).makespan < 1",
		"p(`size=1`).makespan < 1", "p(`size=1, mode=c`).x < 1", "sum(1, 2) < 3", "$ < 1"} {
		if v, err := lookup(someCells).decide(check); err == nil {
			t.Errorf("%q is decided: %s", check, v)
		}
	}
}

func TestShow(t *testing.T) {
	t.Parallel()
	got, err := lookup(someCells).show("{p(`size=1, mode=c`).makespan} s, {p(`size=2, mode=c`).makespan - 1} s, no more")
	if want := "20 s, 29 ± 2.5 s, no more"; err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	for _, bad := range []string{"{1", "{1 < 2}", "{x.y}"} {
		if _, err := lookup(someCells).show(bad); err == nil {
			t.Errorf("%q is shown", bad)
		}
	}
}

func TestAutoscalerWants(t *testing.T) {
	t.Parallel()
	s := Scaling{Target: 8, Least: 2, Most: 5}
	for outstanding, want := range map[int]int{0: 2, 16: 2, 17: 3, 40: 5, 400: 5} {
		if got := s.wants(outstanding); got != want {
			t.Errorf("%d outstanding want %d engines, not %d", outstanding, got, want)
		}
	}
}

func TestOnset(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		steps []float64
		want  int
	}{
		{[]float64{150, 150, 150, 300, 300}, 3},
		{[]float64{150, 150, 150, 160, 310}, 4},
		{[]float64{150, 150, 150}, 3},
		{[]float64{150, 300}, 1},
	} {
		if got := onset(tt.steps); got != tt.want {
			t.Errorf("%v: step %d, want %d", tt.steps, got, tt.want)
		}
	}
}
