package apl

import (
	"fmt"
	"slices"
	"strings"
)

// operators are the names of what this subset has.
var operators = []string{"where", "extend", "summarize", "project", "project-away", "project-keep", "project-reorder",
	"order", "sort", "take", "limit", "top", "count", "distinct", "filter"}

// Parse reads a query.
func Parse(text string) (*Query, error) {
	all, err := tokens(text)
	if err != nil {
		return nil, err
	}
	p := &parser{text: text, tokens: all}
	q := &Query{text: text}
	for p.accept("let") {
		l, err := p.let()
		if err != nil {
			return nil, err
		}
		q.lets = append(q.lets, l)
	}
	if q.Dataset, err = p.dataset(); err != nil {
		return nil, err
	}
	for p.accept("|") {
		step, err := p.operator()
		if err != nil {
			return nil, err
		}
		q.steps = append(q.steps, step)
	}
	if p.accept(";"); p.peek().kind != endToken {
		return nil, p.wrong("want | and an operator")
	}
	return q, nil
}

func (p *parser) let() (let, error) {
	name, err := p.name()
	if err != nil {
		return let{}, err
	}
	if err := p.expect("="); err != nil {
		return let{}, err
	}
	value, err := p.expression()
	if err != nil {
		return let{}, err
	}
	return let{name, value}, p.expect(";")
}

// dataset reads where the rows come from.
func (p *parser) dataset() (string, error) {
	if p.is("print", "union", "search", "declare", "set", "range", "datatable") {
		return "", p.wrong("a query begins with its dataset, as in ['millrace'], in this subset")
	}
	if t := p.peek(); t.kind == stringToken {
		return p.take().text, nil
	}
	name, err := p.name()
	for err == nil && p.accept(".") {
		var more string
		more, err = p.name()
		name += "." + more
	}
	return name, err
}

// operator reads one step.
func (p *parser) operator() (operator, error) {
	t := p.peek()
	if t.kind != nameToken || !slices.Contains(operators, t.text) {
		return nil, p.wrong("want an operator of this subset (%s)", strings.Join(operators, ", "))
	}
	p.take()
	switch t.text {
	case "where", "filter":
		e, err := p.expression()
		return &whereStep{keep: e}, err
	case "extend":
		list, err := p.assignments(false)
		return &extendStep{assigned: list}, err
	case "project":
		list, err := p.assignments(true)
		return &projectStep{assigned: list}, err
	case "project-away", "project-keep", "project-reorder":
		names, err := p.names()
		return &columnsStep{how: t.text, names: names}, err
	case "distinct":
		names, err := p.names()
		return &distinctStep{names: names}, err
	case "order", "sort":
		if err := p.expect("by"); err != nil {
			return nil, err
		}
		keys, err := p.sortKeys()
		return &sortStep{keys: keys}, err
	case "take", "limit":
		n, err := p.whole()
		return &takeStep{count: n}, err
	case "top":
		return p.top()
	case "count":
		return &countStep{}, nil
	}
	return p.summarize()
}

func (p *parser) top() (operator, error) {
	n, err := p.whole()
	if err != nil {
		return nil, err
	}
	if err := p.expect("by"); err != nil {
		return nil, err
	}
	keys, err := p.sortKeys()
	return &topStep{sortStep{keys}, takeStep{n}}, err
}

// whole reads a count of rows.
func (p *parser) whole() (int, error) {
	t := p.peek()
	var n int
	if _, err := fmt.Sscanf(t.text, "%d", &n); t.kind != numberToken || t.unit != "" || err != nil ||
		fmt.Sprint(n) != t.text {
		return 0, p.wrong("want a whole number")
	}
	p.take()
	return n, nil
}

// names reads the names of columns.
func (p *parser) names() ([]*field, error) {
	var list []*field
	for {
		e, err := p.field()
		if err != nil {
			return nil, err
		}
		f, ok := e.(*field)
		if !ok {
			return nil, fault(p.text, e.at(), "want the name of a column")
		}
		list = append(list, f)
		if !p.accept(",") {
			return list, nil
		}
	}
}

// assignments reads name = expression, and where plain names are allowed, these.
func (p *parser) assignments(plain bool) ([]assignment, error) {
	var list []assignment
	for {
		a, err := p.assignment(plain)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(list, func(b assignment) bool { return a.name == b.name }) {
			return nil, fault(p.text, a.value.at(), "column %s is made twice", a.name)
		}
		list = append(list, a)
		if !p.accept(",") {
			return list, nil
		}
	}
}

func (p *parser) assignment(plain bool) (assignment, error) {
	if name, ok := p.assigned(); ok {
		value, err := p.expression()
		return assignment{name, value}, err
	}
	value, err := p.expression()
	if err != nil {
		return assignment{}, err
	}
	if f, ok := value.(*field); ok && plain {
		return assignment{f.name(), f}, nil
	}
	return assignment{}, fault(p.text, value.at(), "give the column a name, as in name = expression")
}

// assigned takes a name and the = after it, if they come next.
func (p *parser) assigned() (string, bool) {
	back := p.next
	name, err := p.name()
	if err == nil && p.accept("=") {
		return name, true
	}
	p.next = back
	return "", false
}

func (p *parser) sortKeys() ([]sortKey, error) {
	var keys []sortKey
	for {
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		key := sortKey{by: e, descending: true}
		if p.is("asc", "desc") {
			key.descending = p.take().text == "desc"
		}
		key.nullsFirst = !key.descending
		if p.accept("nulls") {
			if !p.is("first", "last") {
				return nil, p.wrong("want first or last")
			}
			key.nullsFirst = p.take().text == "first"
		}
		keys = append(keys, key)
		if !p.accept(",") {
			return keys, nil
		}
	}
}

// summarize reads aggregates and what they are grouped by.
func (p *parser) summarize() (operator, error) {
	s := &summarizeStep{}
	for !p.is("by") {
		a, err := p.aggregate()
		if err != nil {
			return nil, err
		}
		s.aggregates = append(s.aggregates, a)
		if !p.accept(",") {
			break
		}
	}
	if p.accept("by") {
		for {
			a, err := p.groupKey()
			if err != nil {
				return nil, err
			}
			s.by = append(s.by, a)
			if !p.accept(",") {
				break
			}
		}
	}
	if len(s.aggregates) == 0 && len(s.by) == 0 {
		return nil, p.wrong("want an aggregate, such as count()")
	}
	return s, s.namesDiffer(p)
}

func (p *parser) aggregate() (*aggregate, error) {
	name, named := p.assigned()
	e, err := p.expression()
	if err != nil {
		return nil, err
	}
	c, ok := e.(*call)
	if !ok || aggregates[c.name].of == nil {
		var hint string
		if ok {
			hint = ": this subset has " + strings.Join(aggregateNames(), ", ")
		}
		return nil, fault(p.text, e.at(), "summarize takes aggregates alone, and computes nothing with them%s; "+
			"use extend after it", hint)
	}
	if err := c.aggregateArguments(p.text); err != nil {
		return nil, err
	}
	if !named {
		name = defaultName(c)
	}
	return &aggregate{place: c.place, name: name, called: c.name, args: c.args}, nil
}

// defaultName is what Axiom calls an aggregate that has no name: count_, sum_wall_s, percentile_wall_s_95.
func defaultName(c *call) string {
	name := c.name + "_"
	for i, arg := range c.args {
		switch arg := arg.(type) {
		case *field:
			name += strings.Join(arg.path, "_")
		case *literal:
			if i > 0 {
				name += "_" + textOf(arg.value)
			}
		}
	}
	return name
}

func (p *parser) groupKey() (assignment, error) {
	if name, ok := p.assigned(); ok {
		value, err := p.expression()
		return assignment{name, value}, err
	}
	value, err := p.expression()
	if err != nil {
		return assignment{}, err
	}
	switch v := value.(type) {
	case *field:
		return assignment{v.name(), v}, nil
	case *call:
		if f, ok := first(v.args).(*field); ok && (v.name == "bin" || v.name == "bin_auto") {
			return assignment{f.name(), v}, nil
		}
	}
	return assignment{}, fault(p.text, value.at(), "give what is grouped by a name, as in by name = expression")
}

func first(list []expression) expression {
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

// namesDiffer reports two columns of one name.
func (s *summarizeStep) namesDiffer(p *parser) error {
	seen := map[string]bool{}
	for _, key := range s.by {
		if seen[key.name] {
			return fault(p.text, key.value.at(), "column %s is made twice", key.name)
		}
		seen[key.name] = true
	}
	for _, a := range s.aggregates {
		for _, name := range a.names() {
			if seen[name] {
				return fault(p.text, a.at(), "column %s is made twice", name)
			}
			seen[name] = true
		}
	}
	return nil
}
