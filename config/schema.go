package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/millrace/millrace/internal/rollout"
)

// SpecSchema is the JSON schema of run specs, for editors; schema/run.schema.json holds it.
func SpecSchema() []byte {
	return schemaOf("Millrace run spec", specTable, DefaultSpec())
}

// ServiceSchema is the JSON schema of the service's configuration; schema/service.schema.json holds it.
func ServiceSchema() []byte {
	return schemaOf("Millrace service configuration", serviceTable, DefaultService())
}

func schemaOf(title string, t table, defaults any) []byte {
	schema := t.schema(reflect.ValueOf(defaults), "")
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = title
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		panic(err) // Maps, lists, texts and numbers.
	}
	return append(text, '\n')
}

// schema describes the value at path; v holds the defaults.
func (t table) schema(v reflect.Value, path string) map[string]any {
	s := map[string]any{}
	rule, known := t.rule(path)
	if known {
		s["description"] = rule.doc
		if rule.example != "" && (v.Kind() == reflect.String || rule.bytes) {
			s["examples"] = []string{rule.example}
		}
	}
	_, isEnvironment := v.Interface().(rollout.Environment)
	_, isDuration := v.Interface().(rollout.Duration)
	switch {
	case isEnvironment:
		s["type"] = "object"
		s["required"] = []string{"kind"}
		s["properties"] = map[string]any{"kind": map[string]any{"type": "string"}}
	case isDuration:
		s["type"] = "string"
		s["pattern"] = `^[0-9]+d$|^([0-9]+d)?([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$`
		s["default"] = v.Interface().(rollout.Duration).String()
	case v.Kind() == reflect.Struct:
		t.object(s, v, path)
	case v.Kind() == reflect.Slice:
		s["type"] = "array"
		s["items"] = t.schema(reflect.Zero(v.Type().Elem()), path)
	default:
		t.leaf(s, v, rule)
	}
	return s
}

func (t table) object(s map[string]any, v reflect.Value, path string) {
	properties := map[string]any{}
	var required []string
	for _, f := range fieldsOf(v.Type()) {
		at := join(path, f.name)
		properties[f.name] = t.schema(v.Field(f.index), at)
		rule, _ := t.rule(at)
		if rule.required && v.Field(f.index).IsZero() || at == "environment" {
			required = append(required, f.name)
		}
	}
	s["type"] = "object"
	s["properties"] = properties
	s["additionalProperties"] = false
	if len(required) > 0 {
		slices.Sort(required)
		s["required"] = required
	}
}

func (t table) leaf(s map[string]any, v reflect.Value, rule rule) {
	switch v.Kind() {
	case reflect.String:
		s["type"] = "string"
		if rule.required {
			s["minLength"] = 1
		}
	case reflect.Bool:
		s["type"] = "boolean"
	case reflect.Int, reflect.Int64:
		s["type"] = "integer"
		if rule.bytes {
			s["type"], s["pattern"] = []string{"integer", "string"}, `^[0-9]+(\.[0-9]+)? ?[KMGT]iB$`
		}
	case reflect.Float64:
		s["type"] = "number"
	default:
		panic(fmt.Sprintf("config: no schema for fields of type %s", v.Type())) // A new field of a type nobody taught it.
	}
	if !v.IsZero() {
		s["default"] = v.Interface()
	}
	for name, bound := range map[string]*float64{"minimum": rule.min, "maximum": rule.max, "exclusiveMinimum": rule.above} {
		if bound != nil {
			s[name] = *bound
		}
	}
	if len(rule.oneOf) > 0 {
		s["enum"] = enum(rule.oneOf, v.Kind())
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
