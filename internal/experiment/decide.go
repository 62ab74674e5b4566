package experiment

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/interval"
	"github.com/millrace/millrace/internal/settings"
	"github.com/millrace/millrace/internal/units"
)

// confidence is that of every interval.
const confidence = 0.95

// lookup finds the values of a metric, seed by seed.
type lookup func(part string, places []Place, metric string) ([]float64, error)

// numbers computes an expression for every seed. What chance does not change has one value.
func (e expression) numbers(find lookup) ([]float64, error) {
	switch e.op {
	case "number":
		return []float64{e.x}, nil
	case "cell":
		return find(e.part, e.places, e.metric)
	}
	args := make([][]float64, len(e.args))
	n := 1
	for i, arg := range e.args {
		var err error
		if args[i], err = arg.numbers(find); err != nil {
			return nil, err
		}
		n = max(n, len(args[i]))
	}
	out := make([]float64, n)
	for i := range out {
		x := make([]float64, len(args))
		for k, arg := range args {
			if len(arg) != 1 && len(arg) != n {
				return nil, fmt.Errorf("values of %d and of %d seeds cannot be compared", len(arg), n)
			}
			x[k] = arg[min(i, len(arg)-1)]
		}
		out[i] = apply(e.op, x)
	}
	return out, nil
}

func apply(op string, x []float64) float64 {
	switch op {
	case "+":
		return x[0] + x[1]
	case "-":
		return x[0] - x[1]
	case "*":
		return x[0] * x[1]
	case "/":
		return x[0] / x[1]
	case "min":
		return min(x[0], x[1])
	case "max":
		return max(x[0], x[1])
	}
	return math.Abs(x[0])
}

// decide is a truth's verdict.
func (e expression) decide(find lookup) (Verdict, error) {
	switch e.op {
	case "and", "or", "not":
		return e.combine(find)
	case "near":
		return e.near(find)
	}
	left, right := e.args[0], e.args[1]
	if e.op == ">" || e.op == ">=" {
		left, right = right, left
	}
	difference, err := expression{op: "-", args: []expression{right, left}}.numbers(find)
	if err != nil {
		return Undecided, err
	}
	return positive(difference, e.op == "<=" || e.op == ">="), nil
}

// positive reports whether a mean is more than zero: by its interval, where there is one.
func positive(values []float64, orZero bool) Verdict {
	mean := interval.Mean(values, confidence)
	half := max(0, mean.Half)
	// Differences of sums that are equal by arithmetic are not always zero.
	if math.Abs(mean.Mean) < 1e-9 && half < 1e-9 {
		mean.Mean, half = 0, 0
	}
	switch {
	case math.IsNaN(mean.Mean) || math.IsNaN(half):
		return Undecided
	case mean.Mean-half > 0, orZero && mean.Mean-half == 0:
		return Holds
	case mean.Mean+half < 0, half == 0:
		return DoesNotHold
	}
	return Undecided
}

// near is |a - b| <= share x |b|.
func (e expression) near(find lookup) (Verdict, error) {
	off := expression{op: "-", args: []expression{e.args[0], e.args[1]}}
	bound := expression{op: "*", args: []expression{e.args[2], {op: "abs", args: []expression{e.args[1]}}}}
	above, err := expression{op: "+", args: []expression{bound, off}}.numbers(find)
	if err != nil {
		return Undecided, err
	}
	below, err := expression{op: "-", args: []expression{bound, off}}.numbers(find)
	if err != nil {
		return Undecided, err
	}
	return both(positive(above, true), positive(below, true)), nil
}

func (e expression) combine(find lookup) (Verdict, error) {
	verdicts := make([]Verdict, len(e.args))
	for i, arg := range e.args {
		var err error
		if verdicts[i], err = arg.decide(find); err != nil {
			return Undecided, err
		}
	}
	switch e.op {
	case "not":
		return opposite(verdicts[0]), nil
	case "or":
		return opposite(both(opposite(verdicts[0]), opposite(verdicts[1]))), nil
	}
	return both(verdicts[0], verdicts[1]), nil
}

func opposite(v Verdict) Verdict {
	switch v {
	case Holds:
		return DoesNotHold
	case DoesNotHold:
		return Holds
	}
	return Undecided
}

func both(a, b Verdict) Verdict {
	switch {
	case a == DoesNotHold || b == DoesNotHold:
		return DoesNotHold
	case a == Holds && b == Holds:
		return Holds
	}
	return Undecided
}

// show replaces the expressions in braces by their values.
func show(text string, find lookup) (string, error) {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "{")
		b.WriteString(before)
		if !ok {
			return b.String(), nil
		}
		inner, after, ok := strings.Cut(rest, "}")
		if !ok {
			return "", fmt.Errorf("a } is missing behind %q", rest)
		}
		e, err := parseNumber(inner)
		if err != nil {
			return "", err
		}
		values, err := e.numbers(find)
		if err != nil {
			return "", err
		}
		b.WriteString(figure(interval.Mean(values, confidence)))
		text = after
	}
}

// figure is a mean with its interval, unless that is narrower than what is shown of the mean.
func figure(m interval.Interval) string {
	if !m.Known() || m.Half < 0.002*math.Abs(m.Mean) || m.Half == 0 {
		return units.Number(m.Mean)
	}
	return units.Number(m.Mean) + " ± " + units.Number(m.Half)
}

// finder finds metrics in cells: what a part's axes do not say, an expression need not name.
type finder struct {
	parts  []Part
	values func(part, cell int, metric string) ([]float64, bool)
}

func (f finder) find(part string, places []Place, metric string) ([]float64, error) {
	p := slices.IndexFunc(f.parts, func(p Part) bool { return p.Name == part })
	if p < 0 {
		names := make([]string, len(f.parts))
		for i := range f.parts {
			names[i] = f.parts[i].Name
		}
		return nil, fmt.Errorf("there is no part %s%s", part, meant(part, names))
	}
	cell, err := f.parts[p].cellAt(places)
	if err != nil {
		return nil, err
	}
	if _, known := MetricNamed(metric); !known {
		return nil, fmt.Errorf("there is no metric %s%s", metric, meant(metric, metricNames()))
	}
	values, ok := f.values(p, cell, metric)
	if !ok {
		return nil, fmt.Errorf("%s has no metric %s: it is not measured in cells of that kind", part, metric)
	}
	return values, nil
}

func meant(word string, known []string) string {
	if near := settings.Nearest(word, known); near != "" {
		return "; did you mean " + near + "?"
	}
	return "; there are " + strings.Join(known, ", ")
}

// cellAt is the cell at these places.
func (p Part) cellAt(places []Place) (int, error) {
	for _, at := range places {
		a := slices.IndexFunc(p.Axes, func(a Axis) bool { return a.Name == at.Axis })
		if a < 0 {
			return 0, fmt.Errorf("%s has no axis %s%s", p.Name, at.Axis, meant(at.Axis, p.axisNames()))
		}
		if names := p.Axes[a].Names(); !slices.Contains(names, at.Point) {
			return 0, fmt.Errorf("%s of %s has no point %s%s", at.Axis, p.Name, at.Point, meant(at.Point, names))
		}
	}
	found := -1
	for i, c := range p.Cells {
		if !c.stands(places) {
			continue
		}
		if found >= 0 {
			return 0, fmt.Errorf("%s has several such cells: name a point of each of its axes %s", p.Name,
				strings.Join(p.axisNames(), ", "))
		}
		found = i
	}
	if found < 0 {
		return 0, fmt.Errorf("%s has no such cell", p.Name)
	}
	return found, nil
}

// stands reports whether a cell is at all of these places.
func (c Cell) stands(places []Place) bool {
	for _, at := range places {
		if !slices.Contains(c.At, at) {
			return false
		}
	}
	return true
}

func (p Part) axisNames() []string {
	names := make([]string, len(p.Axes))
	for i, a := range p.Axes {
		names[i] = a.Name
	}
	return names
}

// Names is the names of an axis's points.
func (a Axis) Names() []string {
	if len(a.Points) == 0 {
		return a.Values
	}
	names := make([]string, len(a.Points))
	for i, p := range a.Points {
		names[i] = p.Name
	}
	return names
}
