package experiment

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/kit/units"
)

// An expression is one of Go, about the metrics of cells: part(`axis=point, ...`).metric, with + - * /, comparisons,
// && || !, near(a, b, share), min, max and abs. Axes that an expression does not name stand at their only point.
// A comparison is decided by the 95 % interval of the difference of its sides, seed by seed: if that leaves it open, so
// is the claim.

// confidence is that of every interval.
const confidence = 0.95

// lookup finds the values of a metric, seed by seed.
type lookup func(part string, places []Place, metric string) ([]float64, error)

// decide is the verdict of a comparison.
func (find lookup) decide(text string) (Verdict, error) {
	e, err := parser.ParseExpr(text)
	if err != nil {
		return Undecided, fmt.Errorf("%q: %w", text, err)
	}
	v, err := find.verdict(e)
	if err != nil {
		return Undecided, fmt.Errorf("%q: %w", text, err)
	}
	return v, nil
}

func (find lookup) verdict(e ast.Expr) (Verdict, error) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return find.verdict(e.X)
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			v, err := find.verdict(e.X)
			return opposite(v), err
		}
	case *ast.BinaryExpr:
		switch e.Op {
		case token.LAND, token.LOR:
			return find.combine(e)
		case token.LSS, token.LEQ:
			return find.less(e.X, e.Y, e.Op == token.LEQ)
		case token.GTR, token.GEQ:
			return find.less(e.Y, e.X, e.Op == token.GEQ)
		}
	case *ast.CallExpr:
		if name, ok := e.Fun.(*ast.Ident); ok && name.Name == "near" && len(e.Args) == 3 {
			return find.near(e.Args[0], e.Args[1], e.Args[2])
		}
	}
	return Undecided, errors.New("want a comparison")
}

func (find lookup) combine(e *ast.BinaryExpr) (Verdict, error) {
	left, err := find.verdict(e.X)
	if err != nil {
		return Undecided, err
	}
	right, err := find.verdict(e.Y)
	if e.Op == token.LOR {
		return opposite(both(opposite(left), opposite(right))), err
	}
	return both(left, right), err
}

func (find lookup) less(left, right ast.Expr, orEqual bool) (Verdict, error) {
	difference, err := find.numbers(&ast.BinaryExpr{X: right, Op: token.SUB, Y: left})
	return positive(difference, orEqual), err
}

// near is |a - b| <= share x |b|.
func (find lookup) near(a, b, share ast.Expr) (Verdict, error) {
	bound := &ast.BinaryExpr{X: share, Op: token.MUL, Y: &ast.CallExpr{Fun: ast.NewIdent("abs"), Args: []ast.Expr{b}}}
	off := &ast.BinaryExpr{X: a, Op: token.SUB, Y: b}
	above, err := find.numbers(&ast.BinaryExpr{X: bound, Op: token.ADD, Y: off})
	if err != nil {
		return Undecided, err
	}
	below, err := find.numbers(&ast.BinaryExpr{X: bound, Op: token.SUB, Y: off})
	return both(positive(above, true), positive(below, true)), err
}

// positive reports whether a mean is more than zero: by its interval, where there is one.
func positive(values []float64, orZero bool) Verdict {
	mean := stat.Mean(values, confidence)
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

// numbers computes an expression for every seed. What chance does not change has one value.
func (find lookup) numbers(e ast.Expr) ([]float64, error) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return find.numbers(e.X)
	case *ast.BasicLit:
		x, err := strconv.ParseFloat(e.Value, 64)
		return []float64{x}, err
	case *ast.UnaryExpr:
		return find.each(e.Op.String(), &ast.BasicLit{Value: "0"}, e.X)
	case *ast.BinaryExpr:
		return find.each(e.Op.String(), e.X, e.Y)
	case *ast.CallExpr:
		if name, ok := e.Fun.(*ast.Ident); ok {
			return find.each(name.Name, e.Args...)
		}
	case *ast.SelectorExpr:
		part, places, err := cellOf(e.X)
		if err != nil {
			return nil, err
		}
		return find(part, places, e.Sel.Name)
	}
	return nil, errors.New("want a number, or part(`axis=point`).metric")
}

// cellOf reads what stands before a metric.
func cellOf(e ast.Expr) (part string, places []Place, err error) {
	if name, ok := e.(*ast.Ident); ok {
		return name.Name, nil, nil
	}
	call, ok := e.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return "", nil, errors.New("want part(`axis=point`).metric")
	}
	name, named := call.Fun.(*ast.Ident)
	at, text := call.Args[0].(*ast.BasicLit)
	if !named || !text {
		return "", nil, errors.New("want part(`axis=point`).metric")
	}
	places, err = parsePlaces(strings.Trim(at.Value, "`"))
	return name.Name, places, err
}

// parsePlaces reads "window=5s, load=busy".
func parsePlaces(text string) ([]Place, error) {
	var places []Place
	for part := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(text) == "" {
			return nil, nil
		}
		axis, point, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			return nil, fmt.Errorf("want AXIS=POINT, not %q", part)
		}
		places = append(places, Place{axis, point})
	}
	return places, nil
}

// each applies an operation to its arguments, seed by seed.
func (find lookup) each(op string, of ...ast.Expr) ([]float64, error) {
	args := make([][]float64, len(of))
	n := 1
	for i, arg := range of {
		var err error
		if args[i], err = find.numbers(arg); err != nil {
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
		var err error
		if out[i], err = apply(op, x); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func apply(op string, x []float64) (float64, error) {
	switch {
	case op == "abs" && len(x) == 1:
		return math.Abs(x[0]), nil
	case len(x) != 2:
	case op == "+":
		return x[0] + x[1], nil
	case op == "-":
		return x[0] - x[1], nil
	case op == "*":
		return x[0] * x[1], nil
	case op == "/":
		return x[0] / x[1], nil
	case op == "min":
		return min(x[0], x[1]), nil
	case op == "max":
		return max(x[0], x[1]), nil
	}
	return 0, fmt.Errorf("there is no %s of %d numbers", op, len(x))
}

// show replaces the expressions in braces by their values.
func (find lookup) show(text string) (string, error) {
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
		e, err := parser.ParseExpr(inner)
		if err != nil {
			return "", fmt.Errorf("%q: %w", inner, err)
		}
		values, err := find.numbers(e)
		if err != nil {
			return "", fmt.Errorf("%q: %w", inner, err)
		}
		b.WriteString(figure(stat.Mean(values, confidence)))
		text = after
	}
}

// figure is a mean with its interval, unless that is narrower than what is shown of the mean.
func figure(m stat.Interval) string {
	if !m.Known() || m.Half < 0.002*math.Abs(m.Mean) || m.Half == 0 {
		return units.Number(m.Mean)
	}
	return units.Number(m.Mean) + " ± " + units.Number(m.Half)
}

// find is how expressions find the metrics of a result's cells.
func (r *Result) find(part string, places []Place, metric string) ([]float64, error) {
	p := slices.IndexFunc(r.Parts, func(p PartResult) bool { return p.Name == part })
	if p < 0 {
		return nil, fmt.Errorf("there is no part %s", part)
	}
	found := -1
	for i, cell := range r.Parts[p].Cells {
		if !stands(cell.At, places) {
			continue
		}
		if found >= 0 {
			return nil, fmt.Errorf("%s has several cells at %v: name a point of each of its axes", part, places)
		}
		found = i
	}
	if found < 0 {
		return nil, fmt.Errorf("%s has no cell at %v", part, places)
	}
	values, ok := r.Parts[p].Cells[found].Metrics[metric]
	if !ok {
		return nil, fmt.Errorf("%s has no metric %s", part, metric)
	}
	return values, nil
}

// stands reports whether a cell is at all of these places.
func stands(at, places []Place) bool {
	for _, place := range places {
		if !slices.Contains(at, place) {
			return false
		}
	}
	return true
}
