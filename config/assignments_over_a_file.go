package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/token"
)

// assignedBy is where the values of assignments stand: no file has them.
const assignedBy = "--set"

// assign notes values, as KEY=VALUE, that take the place of what the document says.
func (r *reader) assign(assignments []string) {
	r.pending = map[string]any{}
	refuse := func(path, format string, args ...any) {
		r.faults = append(r.faults, &Fault{File: assignedBy, Path: path, Text: fmt.Sprintf(format, args...)})
	}
	for _, assignment := range assignments {
		path, text, ok := strings.Cut(assignment, "=")
		if !ok || path == "" {
			refuse("", "want KEY=VALUE, such as buffer.depth=4, not %q", assignment)
			continue
		}
		if _, again := r.pending[path]; again {
			refuse(path, "given twice; keep one")
			continue
		}
		r.pending[path] = assignedValue(path, text)
	}
}

// assignedValue is what stands behind a key on a command line, as a file would have it; else it is a text.
func assignedValue(path, text string) any {
	root, err := parse([]byte(text))
	if err != nil || root == nil {
		return text
	}
	value := &reader{places: map[string]*token.Position{}, values: map[string]*token.Position{}}
	tree := value.tree(root, path, 0)
	if len(value.faults) > 0 {
		return text
	}
	return tree
}

// overlay puts what was assigned into a document. What stood there before is no fault any more.
func (r *reader) overlay(tree any) any {
	document, ok := tree.(map[string]any)
	if !ok {
		return tree
	}
	r.assigned, r.pending = r.pending, nil
	for _, path := range slices.Sorted(maps.Keys(r.assigned)) {
		maps.DeleteFunc(r.places, func(p string, _ *token.Position) bool { return within(p, path) })
		r.faults = slices.DeleteFunc(r.faults, func(f *Fault) bool { return f.File == r.file && within(f.Path, path) })
		put(document, strings.Split(path, "."), r.assigned[path])
		for p := path; p != ""; p = parent(p) {
			if _, known := r.places[p]; !known {
				r.places[p] = r.top
			}
		}
	}
	return document
}

// isAssigned reports whether the value of a key comes from an assignment.
func (r *reader) isAssigned(path string) bool {
	for at := range r.assigned {
		if within(path, at) {
			return true
		}
	}
	return false
}

// within reports whether a key is another or stands below it.
func within(path, above string) bool {
	rest, ok := strings.CutPrefix(path, above)
	return ok && (rest == "" || strings.ContainsAny(rest[:1], ".["))
}

func put(document map[string]any, path []string, value any) {
	for ; len(path) > 1; path = path[1:] {
		inner, ok := document[path[0]].(map[string]any)
		if !ok {
			inner = map[string]any{}
			document[path[0]] = inner
		}
		document = inner
	}
	document[path[0]] = value
}
