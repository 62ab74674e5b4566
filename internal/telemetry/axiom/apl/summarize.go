package apl

import (
	"slices"
	"strings"
	"time"
)

// summarizeStep makes groups of rows, and of each group one row of figures.
type summarizeStep struct {
	aggregates []*aggregate
	by         []assignment
}

func (z *summarizeStep) expressions() []expression {
	var out []expression
	for _, a := range z.aggregates {
		for _, arg := range a.args {
			if _, ok := arg.(*star); !ok {
				out = append(out, arg)
			}
		}
	}
	return append(out, valuesOf(z.by)...)
}

// bin is the place among what is grouped by of the spans of _time; -1: none.
func (z *summarizeStep) bin() int {
	return slices.IndexFunc(z.by, func(a assignment) bool {
		c, ok := a.value.(*call)
		if !ok || c.name != "bin" && c.name != "bin_auto" {
			return false
		}
		f, ok := first(c.args).(*field)
		return ok && f.name() == "_time"
	})
}

// group is rows with the same keys.
type group struct {
	keys []any
	rows []map[string]any
}

func (z *summarizeStep) run(s *scope, t *Table) (*Table, error) {
	groups, err := z.groups(s, t)
	if err != nil {
		return nil, err
	}
	out := &Table{}
	for _, a := range z.by {
		out.Columns = append(out.Columns, a.name)
		out.Groups = append(out.Groups, a.name)
	}
	for _, a := range z.aggregates {
		for _, name := range z.columns(a, t) {
			if !slices.Contains(out.Columns, name) {
				out.Columns = append(out.Columns, name)
			}
		}
	}
	for _, g := range groups {
		row := make(map[string]any, len(out.Columns))
		for i, a := range z.by {
			row[a.name] = g.keys[i]
		}
		for _, a := range z.aggregates {
			if err := z.figure(s, a, g.rows, t, row); err != nil {
				return nil, err
			}
		}
		out.Rows = append(out.Rows, row)
	}
	if i := z.bin(); i >= 0 {
		out.Bin = binSize(s, z.by[i].value.(*call))
		name := z.by[i].name
		out.Order = []Order{{Field: name}}
		slices.SortStableFunc(out.Rows, func(a, b map[string]any) int { return compare(a[name], b[name]) })
	}
	return out, nil
}

func binSize(s *scope, bin *call) time.Duration {
	if bin.name == "bin" {
		if l, ok := bin.args[1].(*literal); ok {
			if d, ok := l.value.(time.Duration); ok {
				return d
			}
		}
	}
	return s.binSize
}

// groups are in the order in which their first rows come. Without anything to group by there is one, also of no rows.
func (z *summarizeStep) groups(s *scope, t *Table) ([]*group, error) {
	if len(z.by) == 0 {
		return []*group{{rows: t.Rows}}, nil
	}
	var all []*group
	found := map[string]*group{}
	var id strings.Builder
	for _, row := range t.Rows {
		keys := make([]any, len(z.by))
		id.Reset()
		for i, a := range z.by {
			v, err := s.value(a.value, row)
			if err != nil {
				return nil, err
			}
			keys[i] = v
			id.WriteString(key(v))
			id.WriteByte(0)
		}
		g := found[id.String()]
		if g == nil {
			g = &group{keys: keys}
			found[id.String()] = g
			all = append(all, g)
		}
		g.rows = append(g.rows, row)
	}
	return all, nil
}

// columns are those that an aggregate makes; * stands for all that are not grouped by.
func (z *summarizeStep) columns(a *aggregate, t *Table) []string {
	names := a.names()
	if len(a.args) > 1 {
		if _, ok := a.args[len(a.args)-1].(*star); ok {
			for _, column := range t.Columns {
				if !slices.ContainsFunc(z.by, func(by assignment) bool { return by.name == column }) {
					names = append(names, column)
				}
			}
		}
	}
	return names
}

// figure puts what an aggregate makes of a group into its row.
func (z *summarizeStep) figure(s *scope, a *aggregate, rows []map[string]any, t *Table, into map[string]any) error {
	if a.called == "arg_max" || a.called == "arg_min" {
		return z.extreme(s, a, rows, t, into)
	}
	f := aggregates[a.called]
	args := make([]any, len(a.args))
	for i, arg := range a.args {
		if l, ok := arg.(*literal); ok {
			args[i] = l.value
		}
	}
	var values []any
	for _, row := range rows {
		counts, err := a.counts(s, f, row)
		if err != nil {
			return err
		}
		if !counts {
			continue
		}
		var v any
		if len(a.args) > 0 && a.called != "countif" {
			if v, err = s.value(a.args[0], row); err != nil {
				return err
			}
			if text, ok := v.(string); ok && wantsNumbers(a.called) {
				return s.fault(a.args[0], "%s of %q, which is no number", a.called, text)
			}
		}
		values = append(values, v)
	}
	into[a.name] = f.of(values, args)
	return nil
}

func (a *aggregate) at() int             { return a.place.at() }
func (a *aggregate) parts() []expression { return a.args }

func wantsNumbers(name string) bool {
	name = strings.TrimSuffix(name, "if")
	return slices.Contains([]string{"sum", "avg", "stdev", "variance", "percentile", "percentiles_array"}, name)
}

// counts reports whether an aggregate's condition holds for a row.
func (a *aggregate) counts(s *scope, f aggregateFunction, row map[string]any) (bool, error) {
	if a.called != "countif" && f.condition == 0 {
		return true, nil
	}
	v, err := s.value(a.args[f.condition], row)
	if err != nil {
		return false, err
	}
	if _, ok := v.(bool); v != nil && !ok {
		return false, s.fault(a.args[f.condition], "a condition is true or false, found a %s", typeOf(v))
	}
	return v == true, nil
}

// extreme puts the fields of the row in which the first argument is largest, or smallest.
func (z *summarizeStep) extreme(s *scope, a *aggregate, rows []map[string]any, t *Table, into map[string]any) error {
	sign := 1
	if a.called == "arg_min" {
		sign = -1
	}
	var best map[string]any
	var most any
	for _, row := range rows {
		v, err := s.value(a.args[0], row)
		if err != nil {
			return err
		}
		if best == nil || v != nil && (most == nil || sign*compare(v, most) > 0) {
			best, most = row, v
		}
	}
	if best == nil {
		return nil
	}
	for _, name := range z.columns(a, t) {
		into[name] = best[name]
	}
	if f, ok := a.args[0].(*field); ok {
		into[f.name()] = most
	} else {
		into[a.name] = most
	}
	for _, arg := range a.args[1:] {
		if f, ok := arg.(*field); ok {
			into[f.name()] = lookUp(best, f.path)
		}
	}
	return nil
}
