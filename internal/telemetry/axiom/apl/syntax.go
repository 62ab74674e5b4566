package apl

import "strings"

// expression is what has a value for a row.
type expression interface {
	at() int
	parts() []expression
}

// walk visits an expression and all in it.
func walk(e expression, see func(expression)) {
	if e == nil {
		return
	}
	see(e)
	for _, part := range e.parts() {
		walk(part, see)
	}
}

// place is where an expression stands in the text.
type place int

func (p place) at() int { return int(p) }

// literal is a value that is written in the query.
type literal struct {
	place
	value any
}

// field is the name of a column, or of something in a column that holds a map.
type field struct {
	place
	path []string
}

func (f *field) name() string { return strings.Join(f.path, ".") }

// unary is a sign before an expression.
type unary struct {
	place
	sign string
	of   expression
}

// binary is a sign between two expressions.
type binary struct {
	place
	sign        string
	left, right expression
}

// between is a range, with its ends in it.
type between struct {
	place
	of, low, high expression
	not           bool
}

// among is a choice from a list.
type among struct {
	place
	of   expression
	list []expression
	not  bool
	fold bool // upper and lower case are the same
}

// call is a function with its arguments.
type call struct {
	place
	name string
	args []expression
}

// star is every column, as in arg_max(_time, *).
type star struct{ place }

// index is a place of a list, or of a map by a computed name.
type index struct {
	place
	of, key expression
}

func (*literal) parts() []expression { return nil }
func (*field) parts() []expression   { return nil }
func (*star) parts() []expression    { return nil }
func (e *unary) parts() []expression { return []expression{e.of} }
func (e *index) parts() []expression { return []expression{e.of, e.key} }
func (e *binary) parts() []expression {
	return []expression{e.left, e.right}
}
func (e *between) parts() []expression { return []expression{e.of, e.low, e.high} }
func (e *among) parts() []expression   { return append([]expression{e.of}, e.list...) }
func (e *call) parts() []expression    { return e.args }

// assignment is a column that is made: its name and its value.
type assignment struct {
	name  string
	value expression
}

// aggregate is one figure of a group: count, or a function of an expression.
type aggregate struct {
	place
	name   string // of the column
	called string // the function
	args   []expression
}

// names are the columns that it makes; arg_max makes one for each of its arguments.
func (a *aggregate) names() []string {
	if a.called != "arg_max" && a.called != "arg_min" {
		return []string{a.name}
	}
	var names []string
	for i, arg := range a.args {
		switch arg := arg.(type) {
		case *field:
			names = append(names, arg.name())
		default:
			if i == 0 {
				names = append(names, a.name)
			}
		}
	}
	return names
}
