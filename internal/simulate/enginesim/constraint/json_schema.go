package constraint

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

//go:embed json_values.ebnf
var jsonValues string

// maxIntRange is how many values an integer with both a minimum and a maximum may have, so that each can be listed.
const maxIntRange = 4096

// schema is the part of JSON Schema that becomes a constraint. Objects have the listed
// properties, in the order listed; others do not occur.
type schema struct {
	Type        typeNames         `json:"type"`
	Enum        []rawValue        `json:"enum"`
	Const       rawValue          `json:"const"`
	AnyOf       []schema          `json:"anyOf"`
	OneOf       []schema          `json:"oneOf"`
	Ref         string            `json:"$ref"`
	Properties  properties        `json:"properties"`
	Required    []string          `json:"required"`
	Items       *schema           `json:"items"`
	MinItems    int               `json:"minItems"`
	MaxItems    *int              `json:"maxItems"`
	MinLength   int               `json:"minLength"`
	MaxLength   *int              `json:"maxLength"`
	Minimum     *int64            `json:"minimum"`
	Maximum     *int64            `json:"maximum"`
	Defs        map[string]schema `json:"$defs"`
	Definitions map[string]schema `json:"definitions"`
}

// known are the keywords that are honoured, or say nothing about which texts are valid. A schema
// with any other is refused rather than honoured in part.
var known = []string{
	"type", "enum", "const", "anyOf", "oneOf", "$ref", "properties", "required", "items", "minItems", "maxItems",
	"minLength", "maxLength",
	"minimum", "maximum", "$defs", "definitions", "title", "description", "default", "examples", "$schema", "$id",
	"additionalProperties",
}

// UnmarshalJSON refuses unknown keywords and takes true and {} as any value.
func (s *schema) UnmarshalJSON(raw []byte) error {
	if string(raw) == "true" {
		return nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return errors.New("a schema must be an object")
	}
	for name := range fields {
		if !slices.Contains(known, name) {
			return fmt.Errorf("the keyword %q is not supported", name)
		}
	}
	if extra := fields["additionalProperties"]; extra != nil && string(extra) != "false" && string(extra) != "true" {
		return errors.New("a schema for additionalProperties is not supported")
	}
	type plain schema
	return json.Unmarshal(raw, (*plain)(s))
}

// typeNames is one type or several.
type typeNames []string

// UnmarshalJSON reads either form.
func (t *typeNames) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*t = typeNames{one}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(t))
}

// rawValue is a JSON value without insignificant space.
type rawValue string

// UnmarshalJSON keeps the text.
func (v *rawValue) UnmarshalJSON(raw []byte) error {
	var b bytes.Buffer
	err := json.Compact(&b, raw)
	*v = rawValue(b.String())
	return err
}

// properties keeps the order of an object's members.
type properties []property

type property struct {
	name   string
	schema schema
}

// UnmarshalJSON reads the members one by one.
func (p *properties) UnmarshalJSON(raw []byte) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return errors.New("properties must be an object")
	}
	*p = properties{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		member := property{name: name.(string)} // the name of a member is a string
		if err := dec.Decode(&member.schema); err != nil {
			return err
		}
		*p = append(*p, member)
	}
	return nil
}

// grammarOf writes a JSON schema as a grammar.
func grammarOf(raw []byte) (string, error) {
	var root schema
	if err := json.Unmarshal(raw, &root); err != nil {
		return "", err
	}
	b := &schemaBuilder{}
	b.WriteString(jsonValues)
	for prefix, defs := range map[string]map[string]schema{"#/$defs/": root.Defs, "#/definitions/": root.Definitions} {
		for name, def := range defs {
			if err := b.define(ruleOf(prefix+name), def); err != nil {
				return "", fmt.Errorf("%s%s: %w", prefix, name, err)
			}
		}
	}
	err := b.define(ruleOf("#"), root)
	fmt.Fprintf(b, "root ::= %s\n", ruleOf("#"))
	return b.String(), err
}

// ruleOf names the rule of what a $ref refers to.
func ruleOf(ref string) string { return "ref" + strings.TrimPrefix(ref, "#") }

// schemaBuilder writes rules.
type schemaBuilder struct {
	strings.Builder
	rules int // without names of their own
}

// rule names an expression, so that alternatives share what follows them.
func (b *schemaBuilder) rule(expression string) string {
	b.rules++
	name := "rule." + strconv.Itoa(b.rules)
	fmt.Fprintf(b, "%s ::= %s\n", name, expression)
	return name
}

func (b *schemaBuilder) define(name string, s schema) error {
	value, err := b.value(s)
	fmt.Fprintf(b, "%s ::= %s\n", name, value)
	return err
}

// quoted is a text as a grammar has it.
func quoted(text rawValue) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(string(text)) + `"`
}

// value is the expression of a schema's values.
func (b *schemaBuilder) value(s schema) (string, error) {
	switch {
	case s.Ref != "":
		return ruleOf(s.Ref), nil
	case s.Const != "":
		return quoted(s.Const), nil
	case s.Enum != nil:
		return oneOf(s.Enum, func(v rawValue) (string, error) { return quoted(v), nil })
	case s.AnyOf != nil || s.OneOf != nil:
		return oneOf(slices.Concat(s.AnyOf, s.OneOf), b.value)
	case s.Type == nil && s.Properties != nil:
		return b.object(s)
	case s.Type == nil:
		return "value3", nil
	}
	return oneOf(s.Type, func(name string) (string, error) { return b.typed(name, s) })
}

// oneOf is the choice of an expression for each item.
func oneOf[T any](items []T, expression func(T) (string, error)) (string, error) {
	choices := make([]string, len(items))
	for i, item := range items {
		var err error
		if choices[i], err = expression(item); err != nil {
			return "", err
		}
	}
	return "(" + strings.Join(choices, " | ") + ")", nil
}

func (b *schemaBuilder) typed(name string, s schema) (string, error) {
	switch name {
	case "object":
		if s.Properties == nil {
			return "object3", nil
		}
		return b.object(s)
	case "array":
		return b.array(s)
	case "string":
		times, err := repeat(s.MinLength, s.MaxLength)
		return `"\"" char` + times + ` "\""`, err
	case "integer":
		return integer(s.Minimum, s.Maximum)
	case "number":
		if s.Minimum != nil || s.Maximum != nil {
			return "", errors.New("bounds of a number that is no integer are not supported")
		}
		return name, nil
	case "boolean", "null":
		return name, nil
	default:
		return "", fmt.Errorf("the type %q is unknown", name)
	}
}

// repeat is the operator for so many at least and, unless that is nil, at most.
func repeat(least int, most *int) (string, error) {
	switch {
	case least < 0 || least > maxRepeat || most != nil && (*most < least || *most > maxRepeat):
		return "", fmt.Errorf("lengths must be ordered and at most %d", maxRepeat)
	case most == nil:
		return fmt.Sprintf("{%d,}", least), nil
	}
	return fmt.Sprintf("{%d,%d}", least, *most), nil
}

// object builds the members from the last to the first, once for the case that one was written
// before and once for the case that none was.
func (b *schemaBuilder) object(s schema) (string, error) {
	for _, name := range s.Required {
		if !slices.ContainsFunc(s.Properties, func(p property) bool { return p.name == name }) {
			return "", fmt.Errorf("the required property %q is not described", name)
		}
	}
	first, later := `"}"`, `"}"`
	for _, p := range slices.Backward(s.Properties) {
		v, err := b.value(p.schema)
		if err != nil {
			return "", fmt.Errorf("%s: %w", p.name, err)
		}
		key, err := json.Marshal(p.name)
		if err != nil {
			return "", err
		}
		member := fmt.Sprintf("%s colon %s %s", quoted(rawValue(key)), v, later)
		without := ""
		if !slices.Contains(s.Required, p.name) {
			first, without = member+" | "+first, " | "+later
		} else {
			first = member
		}
		first, later = b.rule(first), b.rule("comma "+member+without)
	}
	return `"{" ` + first, nil
}

func (b *schemaBuilder) array(s schema) (string, error) {
	item := "value2"
	if s.Items != nil {
		var err error
		if item, err = b.value(*s.Items); err != nil {
			return "", err
		}
		item = b.rule(item)
	}
	if _, err := repeat(s.MinItems, s.MaxItems); err != nil {
		return "", fmt.Errorf("items: %w", err)
	}
	if s.MaxItems != nil && *s.MaxItems == 0 {
		return `"[]"`, nil
	}
	most := s.MaxItems
	if most != nil {
		beside := *most - 1
		most = &beside
	}
	more, _ := repeat(max(s.MinItems-1, 0), most) // in order as before
	items := fmt.Sprintf("(%s (comma %s)%s)", item, item, more)
	if s.MinItems == 0 {
		items += "?"
	}
	return `"[" ` + items + ` "]"`, nil
}

func integer(minimum, maximum *int64) (string, error) {
	if minimum == nil && maximum == nil {
		return "integer", nil
	}
	if minimum == nil || maximum == nil || *maximum < *minimum || uint64(*maximum-*minimum) >= maxIntRange {
		return "", fmt.Errorf("bounds of an integer must be given both and span at most %d values", maxIntRange)
	}
	var values []int64
	for v := *minimum; v <= *maximum; v++ {
		values = append(values, v)
	}
	return oneOf(values, func(v int64) (string, error) { return fmt.Sprintf(`"%d"`, v), nil })
}

// JSONSchema compiles a JSON schema; keywords that it cannot honour are refused. The schema may
// come as an object or as a string that holds one.
func (c *Compiler) JSONSchema(raw []byte) (*Automaton, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = []byte(text)
	}
	grammar, err := grammarOf(raw)
	if err != nil {
		return nil, err
	}
	return c.Grammar(grammar)
}

// JSONObject compiles the constraint to any JSON object, nested a few levels deep.
func (c *Compiler) JSONObject() (*Automaton, error) {
	return c.Grammar(jsonValues + "root ::= object3\n")
}
