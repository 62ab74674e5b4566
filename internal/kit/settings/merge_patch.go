package settings

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Patch is a JSON merge patch (RFC 7396) of a document: values by path, as JSON has them; nil is the default.
type Patch map[string]any

// MarshalJSON writes sections as objects.
func (p Patch) MarshalJSON() ([]byte, error) {
	document := map[string]any{}
	for path, value := range p {
		Put(document, path, value)
	}
	return json.Marshal(document)
}

// Put sets a value of a document, with the sections around it.
func Put(document map[string]any, path string, value any) {
	names := strings.Split(path, ".")
	for ; len(names) > 1; names = names[1:] {
		inner, ok := document[names[0]].(map[string]any)
		if !ok {
			inner = map[string]any{}
			document[names[0]] = inner
		}
		document = inner
	}
	document[names[0]] = value
}

// ReadPatch reads a merge patch of a document of doc's type. What no key means is kept, for Unknown to name it.
func (t Table) ReadPatch(doc any, text []byte) (Patch, error) {
	tree, err := readJSON(text)
	if err != nil {
		return nil, err
	}
	object, ok := tree.(map[string]any)
	if !ok {
		return nil, &Fault{Text: `want a JSON object with the keys that change`}
	}
	p := Patch{}
	return p, t.flatten(p, doc, "", object).Err()
}

func (t Table) flatten(p Patch, doc any, above string, object map[string]any) (faults Faults) {
	for name, value := range object {
		path := Join(above, name)
		inner, ok := value.(map[string]any)
		if ok && t.IsSection(doc, path) {
			faults = append(faults, t.flatten(p, doc, path, inner)...)
			continue
		}
		if _, again := p[path]; again {
			faults.Add(path, "given twice; keep one")
		}
		p[path] = value
	}
	return faults
}

// IsSection reports whether a path is that of keys with values, in documents of doc's type.
func (t Table) IsSection(doc any, path string) bool {
	key, known := t.Key(path)
	return known && key.Of(doc).Kind() == reflect.Struct
}

// Assign adds assignments such as buffer.depth=4, of which example is one.
func (p Patch) Assign(assignments []string, example string) (faults Faults) {
	for _, assignment := range assignments {
		path, text, ok := strings.Cut(assignment, "=")
		_, again := p[path]
		switch {
		case !ok || path == "":
			faults.Add("", "%q: want KEY=VALUE, such as %s", assignment, example)
		case again:
			faults.Add(path, "given twice; keep one")
		default:
			p[path] = word(text)
		}
	}
	return faults
}

// word is what stands behind a key on a command line, as JSON has it.
func word(text string) any {
	tree, err := Decode([]byte(text))
	if err != nil {
		return text
	}
	switch tree.(type) {
	case json.Number, bool:
		return tree
	}
	return text
}

// Into puts the values into a document, those apart that refuse says something against.
func (t Table) Into(doc any, p Patch, refuse func(path string) string) (faults Faults) {
	for _, path := range slices.Sorted(maps.Keys(p)) {
		key, _ := t.Key(path)
		if why := refuse(path); why != "" {
			faults.Add(path, "%s", why)
		} else if p[path] == nil && !t.IsSection(doc, path) {
			key.SetDefault(doc)
		} else {
			faults = append(faults, t.Set(doc, path, Plain(p[path]))...)
		}
	}
	return faults
}

// UnknownPath is Unknown of a whole path.
func (t Table) UnknownPath(path string) string {
	dot := strings.LastIndex(path, ".")
	return t.Unknown(path[:max(0, dot)], path[dot+1:])
}
