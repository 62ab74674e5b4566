package experiment

import (
	"strings"
	"testing"
)

// someParts is one part with two axes, and values for each cell: of size=2 they vary over three seeds.
func someParts() finder {
	part := Part{Name: "p", Axes: []Axis{{Name: "size", Values: []string{"1", "2"}},
		{Name: "mode", Values: []string{"a b", "c"}}}}
	var values [][]float64
	for _, c := range []struct {
		size, mode string
		values     []float64
	}{{"1", "a b", []float64{10}}, {"1", "c", []float64{20}}, {"2", "a b", []float64{9, 10, 11}},
		{"2", "c", []float64{29, 31, 30}}} {
		part.Cells = append(part.Cells, Cell{At: []Place{{"size", c.size}, {"mode", c.mode}}})
		values = append(values, c.values)
	}
	return finder{[]Part{part}, func(_, cell int, metric string) ([]float64, bool) {
		return values[cell], metric == "makespan"
	}}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	const a1, c1, a2, c2 = "p(size=1, mode=a b).makespan", "p(size=1, mode=c).makespan", "p(size=2, mode=a b).makespan",
		"p(size=2, mode=c).makespan"
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
		{a1 + " < 11 and " + c1 + " < 11", DoesNotHold},
		{a1 + " < 11 or " + c1 + " < 11", Holds},
		{a2 + " < " + a1 + " or " + a1 + " < 11", Holds},
		{"not(" + a2 + " < " + a1 + ")", Undecided},
		{"not(" + a1 + " < 5)", Holds},
		{"max(1, 3) - min(1, 3) > 1.5 and abs(1 - 3) >= 2 and -1 < 0", Holds},
		{"2 + 3 * 4 - 10 / 5 >= 12 and 12 >= 2 + 3 * 4 - 10 / 5", Holds},
		{"0 / 0 < 1", Undecided},
	} {
		check, err := parseTruth(tt.check)
		if err != nil {
			t.Errorf("%s: %v", tt.check, err)
			continue
		}
		got, err := check.decide(someParts().find)
		if err != nil || got != tt.want {
			t.Errorf("%s: %s, %v; want %s", tt.check, got, err, tt.want)
		}
	}
}

func TestExpressionsAreRefused(t *testing.T) {
	t.Parallel()
	for check, want := range map[string]string{
		"":                         "the expression ends too soon",
		"1 +":                      "the expression ends too soon",
		"1 < 2 3":                  `unexpected "3"`,
		"1 + 2":                    "this is a number: compare it",
		"(1 < 2":                   `want ")"`,
		"1 and 2 < 3":              "and is of comparisons",
		"(1 < 2) < 3":              "< is of numbers",
		"near(1, 2) > 1":           "near takes 3 values, not 2",
		"p(size=1.makespan < 1":    "a ) is missing",
		"p(size).makespan < 1":     `want AXIS=POINT, not "size"`,
		"p(size=1) < 1":            `want ".": want p(...).METRIC`,
		"q.makespan < 1":           "there is no part q",
		"p(siz=1).makespan < 1":    "p has no axis siz; did you mean size?",
		"p(size=3).makespan < 1":   "size of p has no point 3",
		"p(size=1).makespan < 1":   "p has several such cells",
		"p(size=1, mode=c).x < 1":  "there is no metric x",
		"p(size=1, mode=c).p9 < 1": "there is no metric p9",
		strings.Repeat("(", 80):    "nested deeper",
		"p(mode=c,size=1).onset<1": "it is not measured in cells of that kind",
		"$ < 1":                    `unexpected "$"`,
	} {
		e, err := parseTruth(check)
		if err == nil {
			_, err = e.decide(someParts().find)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %s", check, err, want)
		}
	}
}

func TestShow(t *testing.T) {
	t.Parallel()
	got, err := show("{p(size=1, mode=c).makespan} s, {p(size=2, mode=c).makespan - 1} s, no more", someParts().find)
	if want := "20 s, 29 ± 2.5 s, no more"; err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	for _, bad := range []string{"{1", "{1 < 2}", "{x.y}"} {
		if _, err := show(bad, someParts().find); err == nil {
			t.Errorf("%q is shown", bad)
		}
	}
}

// FuzzExpression: whatever stands in a check, reading it ends.
func FuzzExpression(f *testing.F) {
	for _, seed := range []string{"1 < 2", "p(a=b).c >= near(1,2,3)", "((", "-", "{", "a.b < \u00e9"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if e, err := parseAll(text); err == nil && e.op == "" {
			t.Errorf("%q is read as nothing", text)
		}
	})
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
