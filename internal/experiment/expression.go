package experiment

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// An expression is about the metrics of cells: PART(AXIS=POINT, ...).METRIC, with + - * /, comparisons (< <= > >=),
// near(a, b, share), min, max, abs, and, or, not. Axes that a part has and the expression does not name stand at their
// only point. A comparison is decided by the interval of the difference of its sides, seed by seed: if that leaves it
// open, so is the claim.
type expression struct {
	op   string // number, cell, or the operator
	x    float64
	args []expression

	part   string // of a cell
	places []Place
	metric string
}

// Operators that answer holds or does not hold, and the rest, which are numbers.
var comparisons = []string{"<", "<=", ">", ">=", "near", "and", "or", "not"}

// functions and how many arguments each takes.
var functions = map[string]int{"near": 3, "min": 2, "max": 2, "abs": 1, "not": 1}

// isTruth reports whether an expression is decided rather than computed.
func (e expression) isTruth() bool {
	for _, op := range comparisons {
		if e.op == op {
			return true
		}
	}
	return false
}

// expressionParser reads one expression.
type expressionParser struct {
	text string
	at   int
}

// maxNesting bounds what is taken for an expression that a person wrote.
const maxNesting = 50

// parseTruth reads a claim's check.
func parseTruth(text string) (expression, error) {
	e, err := parseAll(text)
	if err == nil && !e.isTruth() {
		err = errors.New("this is a number: compare it with another one, as in a < b")
	}
	return e, err
}

// parseNumber reads a figure.
func parseNumber(text string) (expression, error) {
	e, err := parseAll(text)
	if err == nil && e.isTruth() {
		err = errors.New("this is a comparison: want a number here")
	}
	return e, err
}

func parseAll(text string) (expression, error) {
	p := &expressionParser{text: text}
	e, err := p.binary(0, 0)
	if err == nil && p.peek() != "" {
		err = fmt.Errorf("unexpected %q", p.peek())
	}
	if err != nil {
		return e, fmt.Errorf("%w, at character %d of %q", err, p.at+1, text)
	}
	return e, nil
}

// levels is the binary operators, the weakest first.
var levels = [][]string{{"or"}, {"and"}, {"<", "<=", ">", ">="}, {"+", "-"}, {"*", "/"}}

func (p *expressionParser) binary(level, depth int) (expression, error) {
	if depth > maxNesting {
		return expression{}, fmt.Errorf("nested deeper than %d levels", maxNesting)
	}
	if level == len(levels) {
		return p.unary(depth)
	}
	left, err := p.binary(level+1, depth+1)
	for err == nil {
		op := p.peek()
		if !slices.Contains(levels[level], op) {
			return left, nil
		}
		p.skip(op)
		var right expression
		if right, err = p.binary(level+1, depth+1); err == nil {
			left, err = join(op, left, right)
		}
	}
	return left, err
}

// join checks that an operator gets what it works on.
func join(op string, args ...expression) (expression, error) {
	wantTruth := op == "and" || op == "or" || op == "not"
	for _, a := range args {
		if a.isTruth() != wantTruth {
			what := "numbers"
			if wantTruth {
				what = "comparisons"
			}
			return expression{}, fmt.Errorf("%s is of %s", op, what)
		}
	}
	return expression{op: op, args: args}, nil
}

func (p *expressionParser) unary(depth int) (expression, error) {
	word := p.peek()
	switch {
	case word == "":
		return expression{}, errors.New("the expression ends too soon")
	case word == "-":
		p.skip(word)
		e, err := p.unary(depth + 1)
		if err != nil {
			return e, err
		}
		return join("-", expression{op: "number"}, e)
	case word == "(":
		p.skip(word)
		e, err := p.binary(0, depth+1)
		if err != nil {
			return e, err
		}
		return e, p.expect(")")
	case word[0] >= '0' && word[0] <= '9':
		x, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return expression{}, fmt.Errorf("%q is no number", word)
		}
		p.skip(word)
		return expression{op: "number", x: x}, nil
	case functions[word] > 0:
		p.skip(word)
		return p.call(word, depth)
	case unicode.IsLetter(rune(word[0])):
		p.skip(word)
		return p.cell(word)
	}
	return expression{}, fmt.Errorf("unexpected %q", word)
}

func (p *expressionParser) call(name string, depth int) (expression, error) {
	if err := p.expect("("); err != nil {
		return expression{}, err
	}
	var args []expression
	for {
		arg, err := p.binary(0, depth+1)
		if err != nil {
			return arg, err
		}
		if args = append(args, arg); p.peek() != "," {
			break
		}
		p.skip(",")
	}
	if want := functions[name]; len(args) != want {
		return expression{}, fmt.Errorf("%s takes %d values, not %d", name, want, len(args))
	}
	e, err := join(name, args...)
	if err != nil {
		return e, err
	}
	return e, p.expect(")")
}

// cell reads what stands behind a part's name: its places, and the metric.
func (p *expressionParser) cell(part string) (expression, error) {
	e := expression{op: "cell", part: part}
	if p.peek() == "(" {
		p.skip("(")
		end := strings.IndexByte(p.text[p.at:], ')')
		if end < 0 {
			return e, errors.New("a ) is missing")
		}
		inner := p.text[p.at : p.at+end]
		p.at += end + 1
		var err error
		if e.places, err = parsePlaces(inner); err != nil {
			return e, err
		}
	}
	if err := p.expect("."); err != nil {
		return e, fmt.Errorf("%w: want %s(...).METRIC", err, part)
	}
	e.metric = p.peek()
	if e.metric == "" || !unicode.IsLetter(rune(e.metric[0])) {
		return e, errors.New("want a metric's name")
	}
	p.skip(e.metric)
	return e, nil
}

// parsePlaces reads "window=5s, load=busy".
func parsePlaces(text string) ([]Place, error) {
	var places []Place
	for _, part := range strings.Split(text, ",") {
		if strings.TrimSpace(part) == "" && !strings.Contains(text, ",") {
			return nil, nil
		}
		axis, point, ok := strings.Cut(part, "=")
		axis, point = strings.TrimSpace(axis), strings.TrimSpace(point)
		if !ok || axis == "" || point == "" {
			return nil, fmt.Errorf("want AXIS=POINT, not %q", strings.TrimSpace(part))
		}
		places = append(places, Place{axis, point})
	}
	return places, nil
}

func (p *expressionParser) expect(word string) error {
	if p.peek() != word {
		return fmt.Errorf("want %q", word)
	}
	p.skip(word)
	return nil
}

// skip goes behind a word that peek has seen.
func (p *expressionParser) skip(word string) {
	p.at += strings.Index(p.text[p.at:], word) + len(word)
}

// peek is the next word; empty at the end.
func (p *expressionParser) peek() string {
	rest := strings.TrimLeft(p.text[p.at:], " \t\n")
	if rest == "" {
		return ""
	}
	for _, two := range []string{"<=", ">="} {
		if strings.HasPrefix(rest, two) {
			return two
		}
	}
	isDigit := rest[0] >= '0' && rest[0] <= '9'
	isLetter := rest[0] == '_' || unicode.IsLetter(rune(rest[0]))
	end := strings.IndexFunc(rest, func(c rune) bool {
		switch {
		case c >= '0' && c <= '9':
			return !isDigit && !isLetter
		case isDigit:
			return c != '.'
		case isLetter:
			return c != '_' && !unicode.IsLetter(c)
		}
		return true
	})
	switch {
	case end < 0:
		return rest
	case end == 0:
		return rest[:1]
	}
	return rest[:end]
}
