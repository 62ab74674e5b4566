// Package settingstest tests that a table of keys fits the type of the documents that are read by it. Start reading at
// Hold.
package settingstest

import (
	"encoding"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/kit/settings"
)

// Hold reports every field of a document's type without a row, every row without a field, and every default of a type
// that its field does not take, so that a table stays complete.
func Hold(t *testing.T, table settings.Table, doc reflect.Type) {
	t.Helper()
	fields := below(doc, "")
	for path := range fields {
		if key, ok := table.Key(path); !ok || key.Doc == "" {
			t.Errorf("%s has no row", path)
		}
	}
	for _, key := range table.Keys {
		of, known := fields[key.Path]
		switch {
		case !known:
			t.Errorf("there is a row for %s, which is no key", key.Path)
		case key.Default != nil && !reflect.TypeOf(key.Default).ConvertibleTo(of):
			t.Errorf("%s cannot be %v", key.Path, key.Default)
		}
	}
}

// below is the type of every key that documents of a type have, sections and lists included.
func below(of reflect.Type, path string) map[string]reflect.Type {
	all := map[string]reflect.Type{}
	if path != "" {
		all[path] = of
	}
	if of.Kind() == reflect.Slice || of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || reflect.PointerTo(of).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return all
	}
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "" && field.Anonymous:
			inner := below(field.Type, path)
			delete(inner, path)
			maps.Copy(all, inner)
		case name != "" && name != "-":
			maps.Copy(all, below(field.Type, settings.Join(path, name)))
		}
	}
	return all
}
