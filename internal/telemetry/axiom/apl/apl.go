// Package apl reads and answers queries in a subset of APL, the query language of Axiom: enough for the dashboards,
// the monitors and the evidence of diagnoses that Millrace writes, so that each of them is executed in tests and in a
// fake Axiom before a real one sees it. Where the real language is lenient or its pages are silent, this one refuses:
// a query that it answers should be answered by Axiom with the same numbers, and one that it lacks is named with the
// place and with what there is. It reads no clock; the time is an argument.
//
// Start reading at Parse, then Query.Run in run_query.go.
package apl

import (
	"fmt"
	"strings"
)

// Query is a query that was read: where its rows come from and what is done with them, in order.
type Query struct {
	Dataset string
	lets    []let
	steps   []operator
	text    string
}

// let is a name that stands for an expression.
type let struct {
	name  string
	value expression
}

// operator is one step of a query, such as where.
type operator interface {
	run(*scope, *Table) (*Table, error)
	// expressions are all that it evaluates, for those who look for names in them.
	expressions() []expression
}

// Error is a query that cannot be read or answered: what is wrong, and where in its text.
type Error struct {
	Line, Column int // from 1; 0: the whole query
	Text         string
}

// Error says where and what.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Text
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Text)
}

// fault is an error at a place in the text.
func fault(text string, at int, format string, args ...any) *Error {
	before := text[:min(max(at, 0), len(text))]
	line := 1 + strings.Count(before, "\n")
	column := len(before) - strings.LastIndexByte(before, '\n')
	return &Error{Line: line, Column: column, Text: fmt.Sprintf(format, args...)}
}

// Fields are the names of the dataset's fields that a query reads, without those that it makes itself: what a dataset
// must have for the query to be answered. Each is named once, in the order of the text.
func (q *Query) Fields() []string {
	var names []string
	seen := map[string]bool{}
	for _, l := range q.lets {
		seen[l.name] = true
	}
	for _, step := range q.steps {
		for _, e := range step.expressions() {
			walk(e, func(e expression) {
				if f, ok := e.(*field); ok && !seen[f.path[0]] && !seen[f.name()] {
					names = append(names, f.name())
					seen[f.name()] = true
				}
			})
		}
		for _, made := range makes(step) {
			seen[made] = true
		}
	}
	return names
}

// makes are the names of the columns that a step adds.
func makes(step operator) []string {
	var names []string
	switch step := step.(type) {
	case *extendStep:
		for _, a := range step.assigned {
			names = append(names, a.name)
		}
	case *projectStep:
		for _, a := range step.assigned {
			names = append(names, a.name)
		}
	case *summarizeStep:
		for _, a := range step.aggregates {
			names = append(names, a.names()...)
		}
		for _, a := range step.by {
			names = append(names, a.name)
		}
	case *countStep:
		names = append(names, "Count")
	}
	return names
}

// BinnedByTime reports whether the last summarize of a query gives one row for each span of time: a chart over time.
func (q *Query) BinnedByTime() bool {
	for i := len(q.steps) - 1; i >= 0; i-- {
		if s, ok := q.steps[i].(*summarizeStep); ok {
			return s.bin() >= 0
		}
	}
	return false
}

// Aggregates reports whether a query makes figures of groups of rows.
func (q *Query) Aggregates() bool {
	for _, step := range q.steps {
		switch step.(type) {
		case *summarizeStep, *countStep:
			return true
		}
	}
	return false
}
