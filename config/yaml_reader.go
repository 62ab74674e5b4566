package config

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/millrace/millrace/internal/settings"
)

// maxFileBytes and maxDepth bound what is taken for a file that a person wrote.
const (
	maxFileBytes = 64 << 10
	maxDepth     = 32
)

// reader reads one YAML document by a table of its keys. It goes on after a fault, so that all are found, each with
// its place.
type reader struct {
	file   string
	table  settings.Table
	places map[string]*token.Position // of every key that the file has
	values map[string]*token.Position // of what stands behind it
	top    *token.Position            // of the document: what is missing belongs there
	faults Faults
	// pending are values from a command line, by key, that take the place of what the document says once it is read;
	// assigned are those that have.
	pending, assigned map[string]any
}

// read reads data into the struct that into points to, which holds the defaults.
func (r *reader) read(data []byte, into any) {
	r.places, r.values = map[string]*token.Position{}, map[string]*token.Position{}
	root, err := parse(data)
	if err != nil {
		r.unreadable(err)
		return
	}
	if root == nil {
		r.fault(nil, "", "the file is empty")
		return
	}
	r.top = start(root)
	r.add(r.table.Read(r.overlay(r.tree(root, "", 0)), into))
}

// unread reports that nothing could be read, so that nothing can be judged.
func (r *reader) unread() bool {
	return len(r.faults) > 0 && (len(r.places) == 0 ||
		slices.ContainsFunc(r.faults, func(f *Fault) bool { return f.form && f.Path == "" }))
}

// check reports every value that breaks its rule.
func (r *reader) check(v any) { r.add(r.table.Check(v, r.reading())) }

// reading is what the file says, for those who judge its values.
func (r *reader) reading() settings.Reading {
	reading := settings.Reading{Given: func(path string) bool { _, given := r.places[path]; return given }}
	for _, f := range r.faults {
		reading.Faults = append(reading.Faults, &settings.Fault{Path: f.Path, Text: f.Text, Form: f.form})
	}
	return reading
}

// add gives faults their places.
func (r *reader) add(faults settings.Faults) {
	for _, f := range faults {
		at := r.place(f.Path)
		if f.Form {
			at = r.values[f.Path]
		}
		r.fault(at, f.Path, "%s", f.Text)
		r.faults[len(r.faults)-1].form = f.Form
	}
}

func (r *reader) hasFault(path string) bool { return r.reading().Faults.Has(path) }

// start is where a document begins: a block mapping's own token is the first colon.
func start(root ast.Node) *token.Position {
	switch node := root.(type) {
	case *ast.MappingNode:
		if !node.IsFlowStyle && len(node.Values) > 0 {
			return position(node.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return position(node.Key)
	}
	return position(root)
}

// parse is the one document of a file; nil when it has none. The parser is another's and sees bytes from anywhere, so a
// panic in it is an unreadable file and not the end of the process.
func parse(data []byte) (root ast.Node, err error) {
	data = bytes.TrimPrefix(data, []byte("\uFEFF")) // Windows editors begin with one.
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("%d bytes are more than a file of this kind has; the limit is %d", len(data), maxFileBytes)
	}
	if bytes.HasPrefix(data, []byte{0xff, 0xfe}) || bytes.HasPrefix(data, []byte{0xfe, 0xff}) {
		return nil, errors.New("this is UTF-16; save it as UTF-8")
	}
	if deepest(data) > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	defer func() {
		if cause := recover(); cause != nil {
			root, err = nil, errors.New("this is not YAML")
		}
	}()
	// Keys given twice are found below, with all other faults.
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, err
	}
	var bodies []ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType || doc.Body.Type() == ast.DirectiveType {
			continue
		}
		bodies = append(bodies, doc.Body)
	}
	switch len(bodies) {
	case 0:
		return nil, nil
	case 1:
		return bodies[0], nil
	}
	return nil, fmt.Errorf("%d documents in one file; keep one", len(bodies))
}

// deepest bounds the nesting of brackets and of block sequences on one line, which the parser follows by recursion.
func deepest(data []byte) int {
	depth, most, dashes := 0, 0, 0
	for _, c := range data {
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(depth-1, 0)
		case '\n':
			dashes = 0
		case '-', '?':
			dashes++
			if dashes > 2*maxDepth {
				return dashes
			}
		}
		most = max(most, depth)
	}
	return most
}

// unreadable reports what the parser found, with its place.
func (r *reader) unreadable(err error) {
	var at *token.Position
	text := err.Error()
	var syntax yaml.Error
	if errors.As(err, &syntax) {
		text = "this is not YAML: " + syntax.GetMessage()
		if t := syntax.GetToken(); t != nil {
			at = t.Position
		}
	}
	r.fault(at, "", "%s", text)
}

func (r *reader) fault(at *token.Position, path, format string, args ...any) {
	f := &Fault{File: r.file, Path: path, Text: fmt.Sprintf(format, args...)}
	switch {
	case r.isAssigned(path):
		f.File = assignedBy
	case at != nil:
		f.Line, f.Col = at.Line, at.Column
	}
	r.faults = append(r.faults, f)
}

// faultAt reports a fault where the file sets path, or else the nearest thing around it.
func (r *reader) faultAt(path, format string, args ...any) {
	r.fault(r.place(path), path, format, args...)
}

func (r *reader) place(path string) *token.Position {
	for p := path; p != ""; p = parent(p) {
		if at, ok := r.places[p]; ok {
			return at
		}
	}
	return r.top
}

func parent(path string) string { return path[:max(0, strings.LastIndexAny(path, ".["))] }
