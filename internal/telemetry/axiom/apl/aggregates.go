package apl

import (
	"maps"
	"math"
	"slices"
)

// aggregateFunction is a figure of the values of a group. Null counts for nothing.
type aggregateFunction struct {
	least, most int // arguments; most -1: any number
	condition   int // place of the argument that says which rows count; 0: all count. It is never the first but of countif
	of          func(values []any, args []any) any
}

// aggregates are those of this subset. count, countif, arg_max and arg_min are in summarizeStep.
var aggregates = map[string]aggregateFunction{
	"count":        {0, 0, 0, counted},
	"countif":      {1, 1, 0, counted},
	"sum":          {1, 1, 0, ofNumbers(total)},
	"sumif":        {2, 2, 1, ofNumbers(total)},
	"avg":          {1, 1, 0, ofNumbers(mean)},
	"avgif":        {2, 2, 1, ofNumbers(mean)},
	"min":          {1, 1, 0, extreme(1)},
	"minif":        {2, 2, 1, extreme(1)},
	"max":          {1, 1, 0, extreme(-1)},
	"maxif":        {2, 2, 1, extreme(-1)},
	"stdev":        {1, 1, 0, ofNumbers(func(v []float64) any { return number(math.Sqrt(variance(v))) })},
	"variance":     {1, 1, 0, ofNumbers(func(v []float64) any { return number(variance(v)) })},
	"percentile":   {2, 2, 0, percentile},
	"percentileif": {3, 3, 2, percentile},
	"dcount":       {1, 1, 0, distinct},
	"dcountif":     {2, 2, 1, distinct},
	"make_list":    {1, 2, 0, list},
	"make_set":     {1, 2, 0, set},
	"arg_max":      {1, -1, 0, counted},
	"arg_min":      {1, -1, 0, counted},
	"percentiles_array": {2, -1, 0, func(values, args []any) any {
		var out []any
		for _, p := range args[1:] {
			out = append(out, percentile(values, []any{nil, p}))
		}
		return out
	}},
}

func aggregateNames() []string { return slices.Sorted(maps.Keys(aggregates)) }

// aggregateArguments reports a wrong number of arguments, and a percentile that is none.
func (e *call) aggregateArguments(text string) error {
	a := aggregates[e.name]
	if len(e.args) < a.least || a.most >= 0 && len(e.args) > a.most {
		return fault(text, e.at(), "%s has %d arguments, and takes %s", e.name, len(e.args), howMany(a.least, a.most))
	}
	for i, arg := range e.args {
		if s, ok := arg.(*star); ok && (i == 0 || e.name != "arg_max" && e.name != "arg_min") {
			return fault(text, s.at(), "* stands only after the first argument of arg_max and arg_min")
		}
		var inner *call
		walk(arg, func(e expression) {
			if c, ok := e.(*call); ok && aggregates[c.name].of != nil && functions[c.name].of == nil {
				inner = c
			}
		})
		if inner != nil {
			return fault(text, inner.at(), "%s inside %s: aggregates do not nest", inner.name, e.name)
		}
	}
	if e.name == "percentile" || e.name == "percentileif" || e.name == "percentiles_array" {
		last := len(e.args)
		if e.name == "percentileif" {
			last = 2
		}
		for _, arg := range e.args[1:last] {
			l, ok := arg.(*literal)
			p, isNumber := 0.0, false
			if ok {
				p, isNumber = l.value.(float64)
			}
			if !isNumber || p < 0 || p > 100 {
				return fault(text, arg.at(), "%s takes a number from 0 to 100, such as 95", e.name)
			}
		}
	}
	return nil
}

func counted(values, _ []any) any { return float64(len(values)) }

func ofNumbers(f func([]float64) any) func(values, args []any) any {
	return func(values, _ []any) any {
		if numbers := numbersOf(values); len(numbers) > 0 {
			return f(numbers)
		}
		return nil
	}
}

func numbersOf(values []any) []float64 {
	var numbers []float64
	for _, v := range values {
		switch v := v.(type) {
		case float64:
			numbers = append(numbers, v)
		case bool:
			n, _ := numberOf(v)
			numbers = append(numbers, n)
		}
	}
	return numbers
}

func sumOf(v []float64) float64 {
	var t float64
	for _, n := range v {
		t += n
	}
	return t
}

func total(v []float64) any { return number(sumOf(v)) }

func mean(v []float64) any { return number(sumOf(v) / float64(len(v))) }

// variance is the sample's.
func variance(v []float64) float64 {
	m := sumOf(v) / float64(len(v))
	var squares float64
	for _, n := range v {
		squares += (n - m) * (n - m)
	}
	return squares / float64(len(v)-1)
}

func extreme(sign int) func(values, args []any) any {
	return func(values, _ []any) any {
		var best any
		for _, v := range values {
			if v != nil && (best == nil || sign*compare(v, best) < 0) {
				best = v
			}
		}
		return best
	}
}

// percentile is the value at the nearest rank.
func percentile(values, args []any) any {
	numbers := numbersOf(values)
	p, ok := args[1].(float64)
	if len(numbers) == 0 || !ok {
		return nil
	}
	slices.Sort(numbers)
	return numbers[max(0, int(math.Ceil(p/100*float64(len(numbers))))-1)]
}

func distinct(values, _ []any) any {
	seen := map[string]bool{}
	for _, v := range values {
		if v != nil {
			seen[key(v)] = true
		}
	}
	return float64(len(seen))
}

func list(values, _ []any) any {
	out := []any{}
	for _, v := range values {
		if v != nil {
			out = append(out, v)
		}
	}
	return out
}

func set(values, _ []any) any {
	seen := map[string]bool{}
	out := []any{}
	for _, v := range values {
		if v != nil && !seen[key(v)] {
			seen[key(v)] = true
			out = append(out, v)
		}
	}
	return out
}
