package settings

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Schema is the JSON schema of a document, for editors; defaults is a pointer to one that holds the defaults.
func (t Table) Schema(title string, defaults any) []byte {
	schema := t.schema(reflect.ValueOf(defaults).Elem(), "")
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = title
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		panic(err) // Maps, lists, texts and numbers.
	}
	return append(text, '\n')
}

// KeySchema is the JSON schema of one key, without its default.
func (t Table) KeySchema(key Key, doc any) map[string]any {
	s := t.schema(reflect.Zero(key.Of(doc).Type()), key.Path)
	delete(s, "default")
	return s
}

// PatchSchema is the JSON schema of a merge patch on some keys of a document, which stand on its top or one section
// deep, and on what more there is on its top.
func (t Table) PatchSchema(some []Key, doc any, more map[string]any) map[string]any {
	properties := map[string]any{}
	maps.Copy(properties, more)
	for _, key := range some {
		schema := t.KeySchema(key, doc)
		above, name, nested := strings.Cut(key.Path, ".")
		if !nested {
			properties[key.Path] = schema
			continue
		}
		object, ok := properties[above].(map[string]any)
		if !ok {
			object = map[string]any{"type": "object", "additionalProperties": false, "properties": map[string]any{}}
			properties[above] = object
		}
		object["properties"].(map[string]any)[name] = schema
	}
	return map[string]any{"properties": properties, "additionalProperties": false}
}

// schema describes the value at path; v holds the defaults.
func (t Table) schema(v reflect.Value, path string) map[string]any {
	s := map[string]any{}
	if v.Kind() == reflect.Pointer {
		v = t.section(v.Type().Elem(), path).Elem()
	}
	key, known := t.Key(path)
	if known {
		s["description"] = key.Doc
		if key.Example != "" && (v.Kind() == reflect.String || key.Bytes) {
			s["examples"] = []string{key.Example}
		}
	}
	_, isDuration := v.Interface().(duration)
	switch {
	case isDuration:
		s["type"] = "string"
		s["pattern"] = `^[0-9]+d$|^([0-9]+d)?([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$`
		s["default"] = fmt.Sprint(v.Interface())
	case v.Kind() == reflect.Struct:
		t.object(s, v, path)
	case v.Kind() == reflect.Slice:
		s["type"] = "array"
		s["items"] = t.schema(reflect.Zero(v.Type().Elem()), path)
	default:
		t.leaf(s, v, key)
	}
	return s
}

func (t Table) object(s map[string]any, v reflect.Value, path string) {
	properties := map[string]any{}
	var required []string
	for _, f := range fieldsOf(v.Type()) {
		at := Join(path, f.name)
		properties[f.name] = t.schema(v.FieldByIndex(f.index), at)
		key, _ := t.Key(at)
		of := v.FieldByIndex(f.index).Type()
		open := isOpen(v.Type()) || isOpen(of) && of.NumField() > 0 // one without keys of its own asks for nothing
		if key.Required && v.FieldByIndex(f.index).IsZero() || open {
			required = append(required, f.name)
		}
	}
	s["type"] = "object"
	s["properties"] = properties
	if !isOpen(v.Type()) {
		s["additionalProperties"] = false
	}
	if len(required) > 0 {
		slices.Sort(required)
		s["required"] = required
	}
}

func (t Table) leaf(s map[string]any, v reflect.Value, key Key) {
	switch v.Kind() {
	case reflect.String:
		s["type"] = "string"
		if key.Required {
			s["minLength"] = 1
		}
	case reflect.Bool:
		s["type"] = "boolean"
	case reflect.Int, reflect.Int64:
		s["type"] = "integer"
		if key.Bytes {
			s["type"], s["pattern"] = []string{"integer", "string"}, `^[0-9]+(\.[0-9]+)? ?[KMGT]iB$`
		}
	case reflect.Float64:
		s["type"] = "number"
	default:
		panic(fmt.Sprintf("settings: no schema for fields of type %s", v.Type())) // A new field of a type nobody taught it.
	}
	if !v.IsZero() {
		s["default"] = v.Interface()
	}
	for name, bound := range map[string]*float64{"minimum": key.Min, "maximum": key.Max, "exclusiveMinimum": key.Above} {
		if bound != nil {
			s[name] = *bound
		}
	}
	if len(key.OneOf) > 0 {
		s["enum"] = enum(key.OneOf, v.Kind())
	}
}

func enum(words []string, kind reflect.Kind) []any {
	values := make([]any, len(words))
	for i, w := range words {
		values[i] = w
		if n, err := strconv.Atoi(w); err == nil && kind == reflect.Int {
			values[i] = n
		}
	}
	return values
}
