// Package document reads a file that somebody has written, in YAML or JSON, by a table of its keys, and knows the place
// of each, so that whatever is wrong has its line. All that is wrong with a file is reported together.
//
// Start reading at Open.
package document

import (
	"slices"
	"strings"

	"github.com/goccy/go-yaml/token"

	"github.com/millrace/millrace/internal/kit/settings"
)

// Document is a file that was read, with the place of each of its keys, so that whatever is wrong has its line.
type Document struct {
	file  string
	table settings.Table

	keys   map[string]*token.Position // of every key that the file has
	values map[string]*token.Position // of what stands behind it
	top    *token.Position            // of the document: what is missing belongs there
	// assigned are values from a command line, by key, in place of what the file says.
	assigned map[string]any
	tree     any // the document as JSON has it
	faults   settings.Faults
}

// Open reads a file into the struct that into points to, which holds the defaults. It goes on after a fault, so that
// all are found. Assignments such as buffer.depth=4 take the place of what the file says.
func Open(t settings.Table, file string, data []byte, into any, assignments ...string) *Document {
	d := &Document{file: file, table: t}
	assigned := d.assignments(assignments)
	if d.parse(data) {
		d.overlay(assigned)
		d.Add(t.Read(d.tree, into)...)
	}
	return d
}

// parse reads the document as plain values, if there are any.
func (d *Document) parse(data []byte) bool {
	d.keys, d.values = map[string]*token.Position{}, map[string]*token.Position{}
	root, at, err := parse(data)
	if err != nil {
		d.refuse(at, "", "%v", err)
		return false
	}
	d.top = start(root)
	d.tree = d.valueOf(root, "", 0)
	return true
}

// Readable reports whether the document could be read at all: otherwise nothing in it can be judged.
func (d *Document) Readable() bool {
	whole := func(f *settings.Fault) bool { return f.Form && f.Path == "" }
	return len(d.faults) == 0 || len(d.keys) > 0 && !slices.ContainsFunc(d.faults, whole)
}

// Given reports whether the document says something about a key.
func (d *Document) Given(path string) bool {
	_, given := d.keys[path]
	return given
}

// Below lists the keys that the document has below one.
func (d *Document) Below(path string) []string {
	var keys []string
	for key := range d.keys {
		if key != path && settings.Within(key, path) {
			keys = append(keys, key)
		}
	}
	return keys
}

// Reading is what is known of the document, for those who judge its values.
func (d *Document) Reading() settings.Reading {
	return settings.Reading{Given: d.Given, Faults: d.faults}
}

// Check reports every value that breaks the rule of its key.
func (d *Document) Check(v any) { d.Add(d.table.Check(v, d.Reading())...) }

// Err is everything that is wrong with the document: Faults, with their places.
func (d *Document) Err() error { return d.faults.Err() }

// Add gives faults their places, and adds them.
func (d *Document) Add(faults ...*settings.Fault) {
	for _, f := range faults {
		at := d.place(f.Path)
		if f.Form {
			at = d.values[f.Path]
		}
		d.refuse(at, f.Path, "%s", f.Text)
		d.faults[len(d.faults)-1].Form = f.Form
	}
}

// Fault adds a fault where the file sets a key, or else where the nearest thing around it is.
func (d *Document) Fault(path, format string, args ...any) {
	d.refuse(d.place(path), path, format, args...)
}

// FaultOnce is Fault unless the key has one already.
func (d *Document) FaultOnce(path, format string, args ...any) {
	if !d.faults.Has(path) {
		d.Fault(path, format, args...)
	}
}

// Faulty reports whether a key has a fault, or stands in what cannot be read.
func (d *Document) Faulty(path string) bool { return d.faults.Has(path) }

func (d *Document) refuse(at *token.Position, path, format string, args ...any) {
	d.faults.Add(path, format, args...)
	f := d.faults[len(d.faults)-1]
	f.File = d.file
	switch {
	case d.isAssigned(path):
		f.File = assignedBy
	case at != nil:
		f.Line, f.Col = at.Line, at.Column
	}
}

func (d *Document) place(path string) *token.Position {
	for ; path != ""; path = parent(path) {
		if at, ok := d.keys[path]; ok {
			return at
		}
	}
	return d.top
}

func parent(path string) string { return path[:max(0, strings.LastIndexAny(path, ".["))] }
