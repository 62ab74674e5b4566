package apl

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
)

// scope is what an expression may read beside its row.
type scope struct {
	text     string
	now      time.Time
	from, to time.Time // of the query
	binSize  time.Duration
	columns  map[string]bool // of the table that is read; nil: not checked
	lets     map[string]expression
	patterns map[string]*regexp.Regexp
}

func (s *scope) fault(e expression, format string, args ...any) error {
	return fault(s.text, e.at(), format, args...)
}

// check reports names that no column has. A name that only some rows have is there: its value may be null.
func (s *scope) check(e expression) error {
	var wrong error
	walk(e, func(e expression) {
		switch e := e.(type) {
		case *field:
			if wrong == nil && !s.known(e) {
				wrong = s.fault(e, "there is no field %s%s", e.name(), s.closest(e.name()))
			}
		case *call:
			if wrong == nil {
				wrong = s.checkCall(e)
			}
		}
	})
	return wrong
}

func (s *scope) known(f *field) bool {
	if s.lets[f.name()] != nil {
		return true
	}
	for n := len(f.path); n > 0; n-- {
		if s.columns[strings.Join(f.path[:n], ".")] {
			return true
		}
	}
	return false
}

// closest names the column whose name is most like a wrong one.
func (s *scope) closest(name string) string {
	best, least := "", len(name)/2+1
	for column := range s.columns {
		d := distance(name, column)
		if d < least || d == least && best != "" && column < best {
			best, least = column, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// distance is how many letters differ.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := last
			if a[i] != b[j] {
				change++
			}
			last = row[j+1]
			row[j+1] = min(change, row[j]+1, last+1)
		}
	}
	return row[len(b)]
}

// value is an expression's value for a row.
func (s *scope) value(e expression, row map[string]any) (any, error) {
	switch e := e.(type) {
	case *literal:
		return e.value, nil
	case *field:
		if named := s.lets[e.name()]; named != nil && !s.columns[e.name()] {
			return s.value(named, nil)
		}
		return lookUp(row, e.path), nil
	case *index:
		return s.element(e, row)
	case *unary:
		return s.unary(e, row)
	case *binary:
		return s.binary(e, row)
	case *between:
		return s.between(e, row)
	case *among:
		return s.among(e, row)
	case *call:
		return s.call(e, row)
	}
	return nil, s.fault(e, "* has no value here")
}

// lookUp finds a name in a row: the longest name that is a column, and the rest in the map that the column holds.
func lookUp(row map[string]any, path []string) any {
	for n := len(path); n > 0; n-- {
		v, there := row[strings.Join(path[:n], ".")]
		if !there {
			continue
		}
		for i := n; i < len(path); i++ {
			inner, ok := v.(map[string]any)
			if !ok {
				return nil
			}
			// A name in a map may have dots itself.
			if v, ok = inner[strings.Join(path[i:], ".")]; ok {
				return v
			}
			v = inner[path[i]]
		}
		return v
	}
	return nil
}

func (s *scope) element(e *index, row map[string]any) (any, error) {
	of, err := s.value(e.of, row)
	if err != nil {
		return nil, err
	}
	at, err := s.value(e.key, row)
	if err != nil {
		return nil, err
	}
	switch of := of.(type) {
	case map[string]any:
		return of[textOf(at)], nil
	case []any:
		i, ok := at.(float64)
		if ok && i < 0 {
			i += float64(len(of))
		}
		if !ok || i < 0 || int(i) >= len(of) {
			return nil, nil
		}
		return of[int(i)], nil
	}
	return nil, nil
}

func (s *scope) unary(e *unary, row map[string]any) (any, error) {
	v, err := s.value(e.of, row)
	if err != nil || v == nil {
		return nil, err
	}
	switch v := v.(type) {
	case bool:
		if e.sign == "not" {
			return !v, nil
		}
	case float64:
		if e.sign == "-" {
			return -v, nil
		}
	case time.Duration:
		if e.sign == "-" {
			return -v, nil
		}
	}
	return nil, s.fault(e, "%s of a %s", e.sign, typeOf(v))
}

func (s *scope) binary(e *binary, row map[string]any) (any, error) {
	left, err := s.value(e.left, row)
	if err != nil {
		return nil, err
	}
	if e.sign == "and" || e.sign == "or" {
		return s.logic(e, left, row)
	}
	right, err := s.value(e.right, row)
	if err != nil {
		return nil, err
	}
	switch e.sign {
	case "==", "!=", "<", "<=", ">", ">=":
		return s.compared(e, left, right)
	case "+", "-", "*", "/", "%":
		return s.arithmetic(e, left, right)
	}
	return s.textual(e, left, right)
}

// logic needs the right side only where the left does not decide.
func (s *scope) logic(e *binary, left any, row map[string]any) (any, error) {
	l, ok := left.(bool)
	if left != nil && !ok {
		return nil, s.fault(e, "%s takes true or false, found a %s", e.sign, typeOf(left))
	}
	if l == (e.sign == "or") {
		return l, nil
	}
	right, err := s.value(e.right, row)
	if err != nil {
		return nil, err
	}
	r, ok := right.(bool)
	if right != nil && !ok {
		return nil, s.fault(e, "%s takes true or false, found a %s", e.sign, typeOf(right))
	}
	return r, nil
}

// compared follows Axiom's page on null: nothing equals it, everything differs from it, nothing is above or below.
func (s *scope) compared(e *binary, left, right any) (any, error) {
	if left == nil || right == nil {
		return e.sign == "!=" && (left != nil || right != nil), nil
	}
	left, right = alike(left, right)
	if typeName(left) != typeName(right) {
		return nil, s.fault(e, "%s compares a %s with a %s", e.sign, typeOf(left), typeOf(right))
	}
	c := compare(left, right)
	switch e.sign {
	case "==":
		return c == 0, nil
	case "!=":
		return c != 0, nil
	case "<":
		return c < 0, nil
	case "<=":
		return c <= 0, nil
	case ">":
		return c > 0, nil
	}
	return c >= 0, nil
}

// alike makes a text a time where it is compared with one.
func alike(a, b any) (any, any) {
	if _, ok := a.(time.Time); ok {
		if text, ok := b.(string); ok {
			if at, ok := timeOf(text); ok {
				return a, at
			}
		}
	}
	if _, ok := b.(time.Time); ok {
		if text, ok := a.(string); ok {
			if at, ok := timeOf(text); ok {
				return at, b
			}
		}
	}
	return a, b
}

func (s *scope) arithmetic(e *binary, left, right any) (any, error) {
	if left == nil || right == nil {
		return nil, nil
	}
	switch l := left.(type) {
	case float64:
		switch r := right.(type) {
		case float64:
			return calculate(e.sign, l, r), nil
		case time.Duration:
			if e.sign == "*" {
				return time.Duration(l * float64(r)), nil
			}
		}
	case time.Time:
		switch r := right.(type) {
		case time.Time:
			if e.sign == "-" {
				return l.Sub(r), nil
			}
		case time.Duration:
			if e.sign == "+" || e.sign == "-" {
				return l.Add(time.Duration(calculate(e.sign, 0.0, float64(r)).(float64))), nil
			}
		}
	case time.Duration:
		switch r := right.(type) {
		case time.Duration:
			if e.sign == "/" {
				return calculate("/", float64(l), float64(r)), nil
			}
			if e.sign != "*" {
				return time.Duration(calculate(e.sign, float64(l), float64(r)).(float64)), nil
			}
		case float64:
			if v, ok := calculate(e.sign, float64(l), r).(float64); ok && (e.sign == "*" || e.sign == "/") {
				return time.Duration(v), nil
			}
		case time.Time:
			if e.sign == "+" {
				return r.Add(l), nil
			}
		}
	}
	return nil, s.fault(e, "a %s %s a %s", typeOf(left), e.sign, typeOf(right))
}

// calculate is null where there is no result, as for a division by zero.
func calculate(sign string, l, r float64) any {
	switch sign {
	case "+":
		return number(l + r)
	case "-":
		return number(l - r)
	case "*":
		return number(l * r)
	case "/":
		return number(l / r)
	}
	return number(math.Mod(l, r))
}

// textual compares texts.
func (s *scope) textual(e *binary, left, right any) (any, error) {
	if left == nil || right == nil {
		return e.sign == "!~" && (left != nil || right != nil), nil
	}
	l, r := textOf(left), textOf(right)
	sign, exact := strings.CutSuffix(e.sign, "_cs")
	if !exact && sign != "matches" {
		l, r = strings.ToLower(l), strings.ToLower(r)
	}
	switch sign {
	case "=~":
		return l == r, nil
	case "!~":
		return l != r, nil
	case "contains":
		return strings.Contains(l, r), nil
	case "startswith":
		return strings.HasPrefix(l, r), nil
	case "endswith":
		return strings.HasSuffix(l, r), nil
	case "has":
		words := strings.FieldsFunc(l, func(c rune) bool { return !inName(c) || c == '_' })
		return slices.Contains(words, r), nil
	}
	pattern, err := s.pattern(e, r)
	if err != nil {
		return nil, err
	}
	return pattern.MatchString(l), nil
}

func (s *scope) pattern(e expression, text string) (*regexp.Regexp, error) {
	if p := s.patterns[text]; p != nil {
		return p, nil
	}
	p, err := regexp.Compile(text)
	if err != nil {
		return nil, s.fault(e, "regular expression: %v", err)
	}
	s.patterns[text] = p
	return p, nil
}

func (s *scope) between(e *between, row map[string]any) (any, error) {
	var ends [2]any
	for i, end := range []struct {
		sign  string
		bound expression
	}{{">=", e.low}, {"<=", e.high}} {
		v, err := s.binary(&binary{place: e.place, sign: end.sign, left: e.of, right: end.bound}, row)
		if err != nil {
			return nil, err
		}
		ends[i] = v
	}
	return (ends[0] == true && ends[1] == true) != e.not, nil
}

func (s *scope) among(e *among, row map[string]any) (any, error) {
	v, err := s.value(e.of, row)
	if err != nil {
		return nil, err
	}
	for _, choice := range e.list {
		c, err := s.value(choice, row)
		if err != nil {
			return nil, err
		}
		if v == nil || c == nil {
			continue
		}
		same := key(v) == key(c) || e.fold && strings.EqualFold(textOf(v), textOf(c))
		if same {
			return !e.not, nil
		}
	}
	return e.not, nil
}
