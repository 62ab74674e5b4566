package document

import (
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/token"

	"github.com/millrace/millrace/internal/kit/settings"
)

// assignedBy is where the values of assignments stand: no file has them.
const assignedBy = "--set"

// assignments is values by key, given as KEY=VALUE.
func (d *Document) assignments(given []string) map[string]any {
	assigned := map[string]any{}
	for _, assignment := range given {
		path, text, ok := strings.Cut(assignment, "=")
		if _, again := assigned[path]; again {
			d.faults = append(d.faults, &settings.Fault{File: assignedBy, Path: path, Text: "given twice; keep one"})
			continue
		}
		if !ok || path == "" {
			d.refuse(nil, "", "want KEY=VALUE, such as buffer.depth=4, not %q", assignment)
			d.faults[len(d.faults)-1].File = assignedBy
			continue
		}
		assigned[path] = Assigned(text)
	}
	return assigned
}

// Assigned is what stands behind a key on a command line, as a file would have it; else it is a text.
func Assigned(text string) any {
	value := &Document{}
	if !value.parse([]byte(text)) || len(value.faults) > 0 {
		return text
	}
	return value.tree
}

// overlay puts what was assigned into a document. What stood there before is no fault any more.
func (d *Document) overlay(assigned map[string]any) {
	document, ok := d.tree.(map[string]any)
	if !ok {
		return
	}
	d.assigned = assigned
	for _, path := range slices.Sorted(maps.Keys(assigned)) {
		maps.DeleteFunc(d.keys, func(p string, _ *token.Position) bool { return settings.Within(p, path) })
		d.faults = slices.DeleteFunc(d.faults, func(f *settings.Fault) bool {
			return f.File == d.file && settings.Within(f.Path, path)
		})
		settings.Put(document, path, assigned[path])
		for p := path; p != ""; p = parent(p) {
			if !d.Given(p) {
				d.keys[p] = d.top
			}
		}
	}
}

// isAssigned reports whether the value of a key comes from an assignment.
func (d *Document) isAssigned(path string) bool {
	for at := range d.assigned {
		if settings.Within(path, at) {
			return true
		}
	}
	return false
}
