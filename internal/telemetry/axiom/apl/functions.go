package apl

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// function is a function of one row's values.
type function struct {
	least, most int // arguments; most -1: any number
	of          func(s *scope, e *call, args []any) (any, error)
}

// functions are those of this subset. The ones that see their arguments unevaluated are in scope.call.
var functions = map[string]function{
	"bin":            {2, 2, func(s *scope, e *call, a []any) (any, error) { return s.bin(e, a[0], a[1]) }},
	"bin_auto":       {1, 1, func(s *scope, e *call, a []any) (any, error) { return s.bin(e, a[0], s.binSize) }},
	"floor":          {1, 2, roundTo(math.Floor)},
	"ceiling":        {1, 1, ofNumber(math.Ceil)},
	"abs":            {1, 1, ofNumber(math.Abs)},
	"sqrt":           {1, 1, ofNumber(math.Sqrt)},
	"exp":            {1, 1, ofNumber(math.Exp)},
	"log":            {1, 1, ofNumber(math.Log)},
	"log2":           {1, 1, ofNumber(math.Log2)},
	"log10":          {1, 1, ofNumber(math.Log10)},
	"round":          {1, 2, roundedTo},
	"pow":            {2, 2, ofTwo(math.Pow)},
	"min_of":         {1, -1, least(1)},
	"max_of":         {1, -1, least(-1)},
	"isnull":         {1, 1, test(func(v any) bool { return v == nil })},
	"isnotnull":      {1, 1, test(func(v any) bool { return v != nil })},
	"isempty":        {1, 1, test(func(v any) bool { return v == nil || v == "" })},
	"isnotempty":     {1, 1, test(func(v any) bool { return v != nil && v != "" })},
	"coalesce":       {1, -1, coalesce},
	"strcat":         {1, -1, ofTexts(func(a []string) any { return strings.Join(a, "") })},
	"tolower":        {1, 1, ofTexts(func(a []string) any { return strings.ToLower(a[0]) })},
	"toupper":        {1, 1, ofTexts(func(a []string) any { return strings.ToUpper(a[0]) })},
	"strlen":         {1, 1, ofTexts(func(a []string) any { return float64(len([]rune(a[0]))) })},
	"replace_string": {3, 3, ofTexts(func(a []string) any { return strings.ReplaceAll(a[0], a[1], a[2]) })},
	"trim_space":     {1, 1, ofTexts(func(a []string) any { return strings.TrimSpace(a[0]) })},
	"tostring":       {1, 1, func(_ *scope, _ *call, a []any) (any, error) { return textOf(a[0]), nil }},
	"split":          {2, 2, split},
	"substring":      {2, 3, substring},
	"extract":        {3, 3, extract},
	"toint":          {1, 1, toNumber(math.Trunc)},
	"tolong":         {1, 1, toNumber(math.Trunc)},
	"todouble":       {1, 1, toNumber(func(f float64) float64 { return f })},
	"toreal":         {1, 1, toNumber(func(f float64) float64 { return f })},
	"tobool":         {1, 1, toBool},
	"datetime":       {1, 1, toTime},
	"todatetime":     {1, 1, toTime},
	"now":            {0, 1, func(s *scope, e *call, a []any) (any, error) { return s.ago(e, a, 1) }},
	"ago":            {1, 1, func(s *scope, e *call, a []any) (any, error) { return s.ago(e, a, -1) }},
	"datetime_diff":  {3, 3, timeDifference},
	"unixtime_seconds_todatetime": {1, 1, func(_ *scope, _ *call, a []any) (any, error) {
		f, ok := numberOf(a[0])
		if !ok {
			return nil, nil
		}
		return time.Unix(0, int64(f*1e9)).UTC(), nil
	}},
	"array_length": {1, 1, func(_ *scope, _ *call, a []any) (any, error) {
		list, ok := a[0].([]any)
		if !ok {
			return nil, nil
		}
		return float64(len(list)), nil
	}},
	"bag_keys": {1, 1, func(_ *scope, _ *call, a []any) (any, error) {
		m, ok := a[0].(map[string]any)
		if !ok {
			return nil, nil
		}
		var names []any
		for _, name := range slices.Sorted(maps.Keys(m)) {
			names = append(names, name)
		}
		return names, nil
	}},
	// Of unevaluated arguments.
	"iff": {3, 3, nil}, "iif": {3, 3, nil}, "case": {3, -1, nil}, "column_ifexists": {2, 2, nil},
}

// checkCall reports a function that there is not, and a wrong number of arguments.
func (s *scope) checkCall(e *call) error {
	f, known := functions[e.name]
	switch {
	case !known && aggregates[e.name].of != nil:
		return s.fault(e, "%s is an aggregate; it stands directly after summarize", e.name)
	case !known:
		return s.fault(e, "this subset of APL has no function %s (it has %s)", e.name,
			strings.Join(slices.Sorted(maps.Keys(functions)), ", "))
	case len(e.args) < f.least || f.most >= 0 && len(e.args) > f.most:
		return s.fault(e, "%s has %d arguments, and takes %s", e.name, len(e.args), howMany(f.least, f.most))
	}
	return nil
}

func howMany(least, most int) string {
	switch {
	case most < 0:
		return textOf(float64(least)) + " or more"
	case least == most:
		return textOf(float64(least))
	}
	return textOf(float64(least)) + " to " + textOf(float64(most))
}

// call is a function's value for a row.
func (s *scope) call(e *call, row map[string]any) (any, error) {
	switch e.name {
	case "iff", "iif":
		return s.chosen(e.args, row)
	case "case":
		if len(e.args)%2 == 0 {
			return nil, s.fault(e, "case takes pairs of a condition and a value, and at the end the value of all else")
		}
		return s.chosen(e.args, row)
	case "column_ifexists":
		return s.columnIfExists(e, row)
	}
	f, known := functions[e.name]
	if !known || f.of == nil {
		return nil, s.checkCall(e)
	}
	args := make([]any, len(e.args))
	for i, arg := range e.args {
		v, err := s.value(arg, row)
		if err != nil {
			return nil, err
		}
		args[i] = v
	}
	return f.of(s, e, args)
}

// chosen is the value after the first condition that holds, or the last.
func (s *scope) chosen(args []expression, row map[string]any) (any, error) {
	for len(args) > 1 {
		holds, err := s.value(args[0], row)
		if err != nil {
			return nil, err
		}
		if _, ok := holds.(bool); holds != nil && !ok {
			return nil, s.fault(args[0], "a condition is true or false, found a %s", typeOf(holds))
		}
		if holds == true {
			return s.value(args[1], row)
		}
		args = args[2:]
	}
	return s.value(args[0], row)
}

func (s *scope) columnIfExists(e *call, row map[string]any) (any, error) {
	name, ok := e.args[0].(*literal)
	if !ok {
		return nil, s.fault(e, "column_ifexists takes the name of a column in quotes")
	}
	if text := textOf(name.value); s.columns[text] {
		return row[text], nil
	}
	return s.value(e.args[1], row)
}

// bin is the multiple of size at or below a number or time.
func (s *scope) bin(e *call, of, size any) (any, error) {
	switch v := of.(type) {
	case nil:
		return nil, nil
	case float64:
		if n, ok := size.(float64); ok && n > 0 {
			return math.Floor(v/n) * n, nil
		}
	case time.Time:
		if d, ok := size.(time.Duration); ok && d > 0 {
			return v.Truncate(d), nil
		}
	case time.Duration:
		if d, ok := size.(time.Duration); ok && d > 0 {
			return v.Truncate(d), nil
		}
	}
	return nil, s.fault(e, "%s of a %s by a %s: want a time by a span such as 5m, or a number by a number above 0",
		e.name, typeOf(of), typeOf(size))
}

func (s *scope) ago(e *call, args []any, sign time.Duration) (any, error) {
	if len(args) == 0 {
		return s.now, nil
	}
	d, ok := args[0].(time.Duration)
	if !ok {
		return nil, s.fault(e, "%s takes a span of time, such as 1h", e.name)
	}
	return s.now.Add(sign * d), nil
}

// wants is an error about an argument.
func (s *scope) wants(e *call, what string, v any) error {
	return s.fault(e, "%s takes %s, found a %s", e.name, what, typeOf(v))
}

func ofNumber(f func(float64) float64) func(*scope, *call, []any) (any, error) {
	return func(s *scope, e *call, a []any) (any, error) {
		switch v := a[0].(type) {
		case nil:
			return nil, nil
		case float64:
			return number(f(v)), nil
		}
		return nil, s.wants(e, "a number", a[0])
	}
}

func ofTwo(f func(a, b float64) float64) func(*scope, *call, []any) (any, error) {
	return func(s *scope, e *call, a []any) (any, error) {
		x, okX := a[0].(float64)
		y, okY := a[1].(float64)
		if !okX || !okY {
			return nil, nil
		}
		return number(f(x, y)), nil
	}
}

// roundTo rounds a number; with two arguments floor is bin.
func roundTo(f func(float64) float64) func(*scope, *call, []any) (any, error) {
	return func(s *scope, e *call, a []any) (any, error) {
		if len(a) == 2 {
			return s.bin(e, a[0], a[1])
		}
		return ofNumber(f)(s, e, a)
	}
}

func roundedTo(s *scope, e *call, a []any) (any, error) {
	digits := 0.0
	if len(a) == 2 {
		digits, _ = a[1].(float64)
	}
	scale := math.Pow(10, digits)
	return ofNumber(func(v float64) float64 { return math.Round(v*scale) / scale })(s, e, a[:1])
}

// least is the smallest argument, or with -1 the largest; null counts for nothing.
func least(sign int) func(*scope, *call, []any) (any, error) {
	return func(_ *scope, _ *call, a []any) (any, error) {
		var best any
		for _, v := range a {
			if v != nil && (best == nil || sign*compare(v, best) < 0) {
				best = v
			}
		}
		return best, nil
	}
}

func test(f func(any) bool) func(*scope, *call, []any) (any, error) {
	return func(_ *scope, _ *call, a []any) (any, error) { return f(a[0]), nil }
}

func coalesce(_ *scope, _ *call, a []any) (any, error) {
	for _, v := range a {
		if v != nil {
			return v, nil
		}
	}
	return nil, nil
}

func ofTexts(f func([]string) any) func(*scope, *call, []any) (any, error) {
	return func(_ *scope, _ *call, a []any) (any, error) {
		texts := make([]string, len(a))
		for i, v := range a {
			texts[i] = textOf(v)
		}
		return f(texts), nil
	}
}

func split(_ *scope, _ *call, a []any) (any, error) {
	var parts []any
	for _, part := range strings.Split(textOf(a[0]), textOf(a[1])) {
		parts = append(parts, part)
	}
	return parts, nil
}

func substring(s *scope, e *call, a []any) (any, error) {
	text := []rune(textOf(a[0]))
	from, ok := a[1].(float64)
	if !ok {
		return nil, s.wants(e, "a number as its second argument", a[1])
	}
	begin := min(max(int(from), 0), len(text))
	end := len(text)
	if len(a) == 3 {
		if n, ok := a[2].(float64); ok {
			end = min(begin+max(int(n), 0), len(text))
		}
	}
	return string(text[begin:end]), nil
}

// extract is what a group of a regular expression matches; null if nothing does.
func extract(s *scope, e *call, a []any) (any, error) {
	pattern, err := s.pattern(e, textOf(a[0]))
	if err != nil {
		return nil, err
	}
	group, ok := a[1].(float64)
	found := pattern.FindStringSubmatch(textOf(a[2]))
	if !ok || found == nil || int(group) >= len(found) || group < 0 {
		return nil, nil
	}
	return found[int(group)], nil
}

func toNumber(f func(float64) float64) func(*scope, *call, []any) (any, error) {
	return func(_ *scope, _ *call, a []any) (any, error) {
		v, ok := numberOf(a[0])
		if !ok {
			return nil, nil
		}
		return number(f(v)), nil
	}
}

func toBool(_ *scope, _ *call, a []any) (any, error) {
	switch v := a[0].(type) {
	case bool:
		return v, nil
	case float64:
		return v != 0, nil
	case string:
		switch strings.ToLower(v) {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
	}
	return nil, nil
}

func toTime(_ *scope, _ *call, a []any) (any, error) {
	switch v := a[0].(type) {
	case time.Time:
		return v, nil
	case string:
		if at, ok := timeOf(v); ok {
			return at, nil
		}
	}
	return nil, nil
}

func timeDifference(s *scope, e *call, a []any) (any, error) {
	unit, known := spans[strings.ToLower(textOf(a[0]))]
	if !known {
		if unit, known = map[string]time.Duration{"millisecond": time.Millisecond, "nanosecond": 1,
			"week": 7 * 24 * time.Hour}[strings.ToLower(textOf(a[0]))]; !known {
			return nil, s.fault(e, "datetime_diff has no unit %q: it has second, minute, hour, day and the like", textOf(a[0]))
		}
	}
	x, okX := a[1].(time.Time)
	y, okY := a[2].(time.Time)
	if !okX || !okY {
		return nil, nil
	}
	return math.Trunc(float64(x.Sub(y)) / float64(unit)), nil
}
