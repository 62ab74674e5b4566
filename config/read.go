package config

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/millrace/millrace/internal/rollout"
)

// maxFileBytes and maxDepth bound what is taken for a file that a person wrote.
const (
	maxFileBytes = 64 << 10
	maxDepth     = 32
)

// reader reads one YAML document into a Go struct by its json tags. It goes on after a fault, so
// that all are found; a value with a fault keeps what was there before.
type reader struct {
	file   string
	table  table
	places map[string]*token.Position // of every path that the file sets
	top    *token.Position            // of the document: what is missing belongs there
	faults Faults
}

// read reads data into the struct that into points to, which holds the defaults.
func (r *reader) read(data []byte, into any) {
	r.places = map[string]*token.Position{}
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
	r.value(root, reflect.ValueOf(into).Elem(), "", 0)
}

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
	if at != nil {
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

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// value reads node into v.
func (r *reader) value(node ast.Node, v reflect.Value, path string, depth int) {
	at := position(node)
	if depth > maxDepth {
		r.fault(at, path, "nested deeper than %d levels", maxDepth)
		return
	}
	if why := unsupported(node); why != "" {
		r.fault(at, path, "%s", why)
		return
	}
	if env, ok := v.Addr().Interface().(*rollout.Environment); ok {
		r.environment(node, env, path, depth)
		return
	}
	if text, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		r.text(node, text, v, path)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		fresh := reflect.New(v.Type().Elem())
		r.value(node, fresh.Elem(), path, depth)
		v.Set(fresh)
	case reflect.Struct:
		r.object(node, v, path, depth)
	case reflect.Slice:
		r.list(node, v, path, depth)
	default:
		r.scalar(node, v, path)
	}
}

// unsupported says why a node of YAML's more surprising kinds is not taken.
func unsupported(node ast.Node) string {
	switch node.(type) {
	case *ast.AliasNode, *ast.AnchorNode, *ast.MergeKeyNode:
		return "anchors and aliases are not taken; write the value out"
	case *ast.TagNode:
		return "tags are not taken; write the value alone"
	case *ast.NullNode:
		return "there is no value; give one, or leave the key out for the default"
	}
	return ""
}

func position(node ast.Node) *token.Position {
	if node == nil || node.GetToken() == nil {
		return nil
	}
	return node.GetToken().Position
}

// pairs is a mapping's keys and values; ok is false when node is no mapping with plain keys.
func (r *reader) pairs(node ast.Node, path, want string) ([]*ast.MappingValueNode, bool) {
	switch node := node.(type) {
	case *ast.MappingNode:
		return node.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{node}, true
	}
	r.fault(position(node), path, "want %s, not %s", want, describe(node))
	return nil, false
}

// key is a pair's key as text; empty when it is no plain text or was given before.
func (r *reader) key(pair *ast.MappingValueNode, path string, seen map[string]int) string {
	at := position(pair.Key)
	if _, merge := pair.Key.(*ast.MergeKeyNode); merge {
		r.fault(at, path, "merge keys are not taken; write the values out")
		return ""
	}
	text, ok := pair.Key.(*ast.StringNode)
	if !ok || text.Value == "" {
		r.fault(at, path, "a key must be a plain word, not %s", describe(pair.Key))
		return ""
	}
	if first, again := seen[text.Value]; again {
		r.fault(at, join(path, text.Value), "given twice, first in line %d; keep one", first)
		return ""
	}
	if at != nil {
		seen[text.Value] = at.Line
		r.places[join(path, text.Value)] = at
	}
	return text.Value
}

// object reads a mapping into a struct whose fields are named by their json tags.
func (r *reader) object(node ast.Node, v reflect.Value, path string, depth int) {
	pairs, ok := r.pairs(node, path, "keys with values")
	if !ok {
		return
	}
	fields := fieldsOf(v.Type())
	names := make([]string, 0, len(fields))
	for _, f := range fields {
		names = append(names, f.name)
	}
	seen := map[string]int{}
	for _, pair := range pairs {
		name := r.key(pair, path, seen)
		if name == "" {
			continue
		}
		at := slices.Index(names, name)
		if at < 0 {
			r.fault(position(pair.Key), join(path, name), "%s", r.table.unknown(path, name, names))
			continue
		}
		r.value(pair.Value, v.Field(fields[at].index), join(path, name), depth+1)
	}
}

func (r *reader) list(node ast.Node, v reflect.Value, path string, depth int) {
	seq, ok := node.(*ast.SequenceNode)
	if !ok {
		r.fault(position(node), path, "want a list, not %s", describe(node))
		return
	}
	list := reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values))
	for i, item := range seq.Values {
		at := fmt.Sprintf("%s[%d]", path, i)
		r.places[at] = position(item)
		r.value(item, list.Index(i), at, depth+1)
	}
	v.Set(list)
}

// field is one field of a struct, as files name it.
type field struct {
	name  string
	index int
}

// fieldsOf lists the fields that files may set: those with a name in their json tag.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" {
			fields = append(fields, field{name, i})
		}
	}
	return fields
}
