package apl

import (
	"regexp"
	"slices"
	"time"
)

// Table is rows under columns. A row may lack columns, which are null then.
type Table struct {
	Columns []string
	Rows    []map[string]any
	// Order and Groups are what the last operators made of it.
	Order  []Order
	Groups []string
	Bin    time.Duration // of _time; 0: the rows are not of spans of time
}

// Order is a column by which rows are ordered.
type Order struct {
	Field string
	Desc  bool
}

// MostRows is how many rows a query answers at most.
const MostRows = 50_000

// Run answers a query from a dataset's rows, of which those from the time from, and before to, are read; the zero time
// is no bound. The field _time of every row is a time.Time. columns are all the dataset's fields, also those that none
// of the rows has: a field that is not among them is an error, as in Axiom.
func (q *Query) Run(rows []map[string]any, columns []string, from, to, now time.Time) (*Table, error) {
	s := &scope{text: q.text, now: now.UTC(), from: from, to: to, patterns: map[string]*regexp.Regexp{},
		lets: map[string]expression{}}
	for _, l := range q.lets {
		s.columns = nil
		if err := s.check(l.value); err != nil {
			return nil, err
		}
		s.lets[l.name] = l.value
	}
	t := &Table{Columns: columns}
	low, high := from, to
	for _, row := range rows {
		at, _ := row["_time"].(time.Time)
		if !from.IsZero() && at.Before(from) || !to.IsZero() && !at.Before(to) {
			continue
		}
		t.Rows = append(t.Rows, row)
		if from.IsZero() && (low.IsZero() || at.Before(low)) {
			low = at
		}
		if to.IsZero() && at.After(high) {
			high = at
		}
	}
	s.binSize = AutoBin(high.Sub(low))
	for _, step := range q.steps {
		s.columns = map[string]bool{}
		for _, c := range t.Columns {
			s.columns[c] = true
		}
		for _, e := range step.expressions() {
			if err := s.check(e); err != nil {
				return nil, err
			}
		}
		var err error
		if t, err = step.run(s, t); err != nil {
			return nil, err
		}
	}
	if len(t.Rows) > MostRows {
		t.Rows = t.Rows[:MostRows]
	}
	return t, nil
}

// autoBins are the spans that bin_auto chooses from.
var autoBins = []time.Duration{time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour,
	12 * time.Hour, 24 * time.Hour}

// AutoBin is the span of bin_auto for a query over d: the shortest that gives no more than some 120 rows.
func AutoBin(d time.Duration) time.Duration {
	for _, bin := range autoBins {
		if d/bin <= 120 {
			return bin
		}
	}
	return 7 * 24 * time.Hour
}

type whereStep struct{ keep expression }

func (w *whereStep) expressions() []expression { return []expression{w.keep} }

func (w *whereStep) run(s *scope, t *Table) (*Table, error) {
	out := *t
	out.Rows = nil
	for _, row := range t.Rows {
		v, err := s.value(w.keep, row)
		if err != nil {
			return nil, err
		}
		if _, ok := v.(bool); v != nil && !ok {
			return nil, s.fault(w.keep, "where takes a condition, found a %s", typeOf(v))
		}
		if v == true {
			out.Rows = append(out.Rows, row)
		}
	}
	return &out, nil
}

type extendStep struct{ assigned []assignment }

func (e *extendStep) expressions() []expression { return valuesOf(e.assigned) }

func valuesOf(list []assignment) []expression {
	out := make([]expression, len(list))
	for i, a := range list {
		out[i] = a.value
	}
	return out
}

func (e *extendStep) run(s *scope, t *Table) (*Table, error) {
	out := *t
	out.Rows = make([]map[string]any, len(t.Rows))
	out.Columns = slices.Clone(t.Columns)
	for i, row := range t.Rows {
		wider := make(map[string]any, len(row)+len(e.assigned))
		for name, v := range row {
			wider[name] = v
		}
		for _, a := range e.assigned {
			v, err := s.value(a.value, row)
			if err != nil {
				return nil, err
			}
			wider[a.name] = v
		}
		out.Rows[i] = wider
	}
	for _, a := range e.assigned {
		if !slices.Contains(out.Columns, a.name) {
			out.Columns = append(out.Columns, a.name)
		}
	}
	return &out, nil
}

type projectStep struct{ assigned []assignment }

func (p *projectStep) expressions() []expression { return valuesOf(p.assigned) }

func (p *projectStep) run(s *scope, t *Table) (*Table, error) {
	out := *t
	out.Rows, out.Columns = make([]map[string]any, len(t.Rows)), nil
	for _, a := range p.assigned {
		out.Columns = append(out.Columns, a.name)
	}
	for i, row := range t.Rows {
		narrow := make(map[string]any, len(p.assigned))
		for _, a := range p.assigned {
			v, err := s.value(a.value, row)
			if err != nil {
				return nil, err
			}
			narrow[a.name] = v
		}
		out.Rows[i] = narrow
	}
	if !slices.Contains(out.Columns, "_time") {
		out.Bin = 0
	}
	return &out, nil
}

// columnsStep keeps columns, leaves them out, or puts them first.
type columnsStep struct {
	how   string
	names []*field
}

func (c *columnsStep) expressions() []expression { return fieldsAsExpressions(c.names) }

func fieldsAsExpressions(names []*field) []expression {
	var out []expression
	for _, n := range names {
		out = append(out, n)
	}
	return out
}

func (c *columnsStep) run(_ *scope, t *Table) (*Table, error) {
	out := *t
	var named, rest []string
	for _, n := range c.names {
		named = append(named, n.name())
	}
	for _, column := range t.Columns {
		if !slices.Contains(named, column) {
			rest = append(rest, column)
		}
	}
	switch c.how {
	case "project-away":
		out.Columns = rest
	case "project-keep":
		out.Columns = named
	default:
		out.Columns = append(named, rest...)
	}
	return &out, nil
}

type distinctStep struct{ names []*field }

func (d *distinctStep) expressions() []expression { return fieldsAsExpressions(d.names) }

func (d *distinctStep) run(s *scope, t *Table) (*Table, error) {
	by := make([]assignment, len(d.names))
	for i, n := range d.names {
		by[i] = assignment{n.name(), n}
	}
	return (&summarizeStep{by: by}).run(s, t)
}

type takeStep struct{ count int }

func (*takeStep) expressions() []expression { return nil }

func (n *takeStep) run(_ *scope, t *Table) (*Table, error) {
	out := *t
	out.Rows = t.Rows[:min(n.count, len(t.Rows))]
	return &out, nil
}

type countStep struct{}

func (*countStep) expressions() []expression { return nil }

func (*countStep) run(_ *scope, t *Table) (*Table, error) {
	return &Table{Columns: []string{"Count"}, Rows: []map[string]any{{"Count": float64(len(t.Rows))}}}, nil
}

type sortKey struct {
	by         expression
	descending bool
	nullsFirst bool
}

type sortStep struct{ keys []sortKey }

func (o *sortStep) expressions() []expression {
	var out []expression
	for _, k := range o.keys {
		out = append(out, k.by)
	}
	return out
}

func (o *sortStep) run(s *scope, t *Table) (*Table, error) {
	type keyed struct {
		row  map[string]any
		keys []any
	}
	rows := make([]keyed, len(t.Rows))
	for i, row := range t.Rows {
		rows[i].row = row
		for _, k := range o.keys {
			v, err := s.value(k.by, row)
			if err != nil {
				return nil, err
			}
			rows[i].keys = append(rows[i].keys, v)
		}
	}
	slices.SortStableFunc(rows, func(a, b keyed) int {
		for i, k := range o.keys {
			if c := k.compare(a.keys[i], b.keys[i]); c != 0 {
				return c
			}
		}
		return 0
	})
	out := *t
	out.Rows, out.Order = make([]map[string]any, len(rows)), nil
	for i, r := range rows {
		out.Rows[i] = r.row
	}
	for _, k := range o.keys {
		if f, ok := k.by.(*field); ok {
			out.Order = append(out.Order, Order{f.name(), k.descending})
		}
	}
	return &out, nil
}

func (k sortKey) compare(a, b any) int {
	if a == nil || b == nil {
		switch {
		case a == nil && b == nil:
			return 0
		case (a == nil) == k.nullsFirst:
			return -1
		}
		return 1
	}
	if k.descending {
		return compare(b, a)
	}
	return compare(a, b)
}

type topStep struct {
	sortStep
	takeStep
}

func (t *topStep) expressions() []expression { return t.sortStep.expressions() }

func (t *topStep) run(s *scope, table *Table) (*Table, error) {
	sorted, err := t.sortStep.run(s, table)
	if err != nil {
		return nil, err
	}
	return t.takeStep.run(s, sorted)
}
