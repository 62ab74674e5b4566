package constraint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Bounds that keep a schema's language regular and small.
const (
	freeDepth    = 3    // nesting of values whose schema says nothing
	maxIntRange  = 4096 // values of an integer with both a minimum and a maximum
	maxIntDigits = 15
)

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

// parseSchema turns a JSON schema into an expression and the rules that it refers to.
func parseSchema(raw []byte) (node, map[string]node, error) {
	var root schema
	if err := json.Unmarshal(raw, &root); err != nil {
		return node{}, nil, err
	}
	b := &schemaBuilder{rules: map[string]node{}}
	for prefix, defs := range map[string]map[string]schema{"#/$defs/": root.Defs, "#/definitions/": root.Definitions} {
		for name, def := range defs {
			n, err := b.value(def)
			if err != nil {
				return node{}, nil, fmt.Errorf("%s%s: %w", prefix, name, err)
			}
			b.rules[prefix+name] = n
		}
	}
	n, err := b.value(root)
	b.rules["#"] = n
	return n, b.rules, err
}

// anyObject is the schema of response_format json_object.
func anyObject() (node, map[string]node, error) {
	b := &schemaBuilder{rules: map[string]node{}}
	return b.freeObject(freeDepth), b.rules, nil
}

// schemaBuilder names rules so that alternatives share what follows them.
type schemaBuilder struct {
	rules map[string]node
}

func (b *schemaBuilder) rule(n node) node {
	name := "." + strconv.Itoa(len(b.rules))
	b.rules[name] = n
	return node{op: opRef, text: name}
}

func (b *schemaBuilder) value(s schema) (node, error) {
	switch {
	case s.Ref != "":
		return node{op: opRef, text: s.Ref}, nil
	case s.Const != "":
		return literal(string(s.Const)), nil
	case s.Enum != nil:
		var choices []node
		for _, v := range s.Enum {
			choices = append(choices, literal(string(v)))
		}
		return alt(choices...), nil
	case s.AnyOf != nil || s.OneOf != nil:
		return b.anyOf(append(slices.Clone(s.AnyOf), s.OneOf...))
	case s.Type == nil && s.Properties != nil:
		return b.object(s)
	case s.Type == nil:
		return b.free(freeDepth), nil
	}
	var choices []node
	for _, name := range s.Type {
		n, err := b.typed(name, s)
		if err != nil {
			return node{}, err
		}
		choices = append(choices, n)
	}
	return alt(choices...), nil
}

func (b *schemaBuilder) anyOf(options []schema) (node, error) {
	var choices []node
	for _, option := range options {
		n, err := b.value(option)
		if err != nil {
			return node{}, err
		}
		choices = append(choices, n)
	}
	return alt(choices...), nil
}

func (b *schemaBuilder) typed(name string, s schema) (node, error) {
	switch name {
	case "object":
		if s.Properties == nil {
			return b.freeObject(freeDepth), nil
		}
		return b.object(s)
	case "array":
		return b.array(s)
	case "string":
		return jsonString(s.MinLength, s.MaxLength)
	case "integer":
		return integer(s.Minimum, s.Maximum)
	case "number":
		if s.Minimum != nil || s.Maximum != nil {
			return node{}, errors.New("bounds of a number that is no integer are not supported")
		}
		return number(), nil
	case "boolean":
		return alt(literal("true"), literal("false")), nil
	case "null":
		return literal("null"), nil
	default:
		return node{}, fmt.Errorf("the type %q is unknown", name)
	}
}

// comma and colon allow one space after them, as language models write.
func comma() node { return seq(literal(","), optional(literal(" "))) }
func colon() node { return seq(literal(":"), optional(literal(" "))) }

// object builds the members from the last to the first, once for the case that one was written
// before and once for the case that none was.
func (b *schemaBuilder) object(s schema) (node, error) {
	for _, name := range s.Required {
		if !slices.ContainsFunc(s.Properties, func(p property) bool { return p.name == name }) {
			return node{}, fmt.Errorf("the required property %q is not described", name)
		}
	}
	first, later := literal("}"), literal("}")
	for _, p := range slices.Backward(s.Properties) {
		v, err := b.value(p.schema)
		if err != nil {
			return node{}, fmt.Errorf("%s: %w", p.name, err)
		}
		key, err := json.Marshal(p.name)
		if err != nil {
			return node{}, err
		}
		member := seq(literal(string(key)), colon(), v, later)
		if slices.Contains(s.Required, p.name) {
			first, later = b.rule(member), b.rule(seq(comma(), member))
			continue
		}
		first, later = b.rule(alt(member, first)), b.rule(alt(seq(comma(), member), later))
	}
	return seq(literal("{"), first), nil
}

func (b *schemaBuilder) array(s schema) (node, error) {
	item := b.free(freeDepth - 1)
	if s.Items != nil {
		var err error
		if item, err = b.value(*s.Items); err != nil {
			return node{}, err
		}
	}
	item = b.rule(item)
	more := seq(comma(), item)
	least := max(s.MinItems, 1)
	if s.MaxItems == nil {
		return bracketed(s.MinItems, seq(item, times(more, least-1), star(more))), nil
	}
	if *s.MaxItems < s.MinItems || *s.MaxItems > maxRepeat {
		return node{}, fmt.Errorf("maxItems %d is not between minItems and %d", *s.MaxItems, maxRepeat)
	}
	if *s.MaxItems == 0 {
		return literal("[]"), nil
	}
	return bracketed(s.MinItems, seq(item, times(more, least-1), upTo(more, *s.MaxItems-least))), nil
}

// bracketed puts items into brackets; none are needed when least is 0.
func bracketed(least int, items node) node {
	if least == 0 {
		items = optional(items)
	}
	return seq(literal("["), items, literal("]"))
}

func times(n node, k int) node {
	parts := make([]node, k)
	for i := range parts {
		parts[i] = n
	}
	return seq(parts...)
}

// free is any value, nested at most depth deep.
func (b *schemaBuilder) free(depth int) node {
	text, _ := jsonString(0, nil) // never fails without bounds
	choices := []node{text, number(), literal("true"), literal("false"), literal("null")}
	if depth > 0 {
		item := b.rule(b.free(depth - 1))
		choices = append(choices, b.freeObject(depth), bracketed(0, seq(item, star(seq(comma(), item)))))
	}
	return alt(choices...)
}

func (b *schemaBuilder) freeObject(depth int) node {
	key, _ := jsonString(0, nil) // never fails without bounds
	member := b.rule(seq(key, colon(), b.free(depth-1)))
	return seq(literal("{"), optional(seq(member, star(seq(comma(), member)))), literal("}"))
}

// jsonString is a quoted text of so many characters.
func jsonString(least int, most *int) (node, error) {
	hex := class([]rune{'0', '9', 'A', 'F', 'a', 'f'})
	escaped := seq(literal(`\`), alt(class(pairs(`"\/bfnrt`)), seq(literal("u"), hex, hex, hex, hex)))
	char := alt(class([]rune{' ', '!', '#', '[', ']', 0xD7FF, 0xE000, 0x10FFFF}), escaped)
	if least < 0 || least > maxRepeat || most != nil && (*most < least || *most > maxRepeat) {
		return node{}, fmt.Errorf("lengths of strings must be ordered and at most %d", maxRepeat)
	}
	rest := star(char)
	if most != nil {
		rest = upTo(char, *most-least)
	}
	return seq(literal(`"`), times(char, least), rest, literal(`"`)), nil
}

// pairs is the class of the characters of a text.
func pairs(chars string) []rune {
	var runes []rune
	for _, r := range chars {
		runes = append(runes, r, r)
	}
	return runes
}

func integer(minimum, maximum *int64) (node, error) {
	if minimum == nil && maximum == nil {
		return seq(optional(literal("-")), whole()), nil
	}
	if minimum == nil || maximum == nil || *maximum < *minimum || uint64(*maximum-*minimum) >= maxIntRange {
		return node{}, fmt.Errorf("bounds of an integer must be given both and span at most %d values", maxIntRange)
	}
	var choices []node
	for v := *minimum; v <= *maximum; v++ {
		choices = append(choices, literal(strconv.FormatInt(v, 10)))
	}
	return alt(choices...), nil
}

func whole() node {
	digit := class([]rune{'0', '9'})
	return alt(literal("0"), seq(class([]rune{'1', '9'}), upTo(digit, maxIntDigits-1)))
}

func number() node {
	digit := class([]rune{'0', '9'})
	fraction := seq(literal("."), digit, upTo(digit, maxIntDigits-1))
	exponent := seq(class(pairs("eE")), optional(class(pairs("+-"))), digit, optional(digit))
	return seq(optional(literal("-")), whole(), optional(fraction), optional(exponent))
}

// JSONSchema compiles a JSON schema; keywords that it cannot honour are refused. The schema may
// come as an object or as a string that holds one.
func (c *Compiler) JSONSchema(raw []byte) (*Automaton, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = []byte(text)
	}
	return c.compile("json:"+strings.TrimSpace(string(raw)), func() (node, map[string]node, error) {
		return parseSchema(raw)
	})
}

// JSONObject compiles the constraint to any JSON object, nested a few levels deep.
func (c *Compiler) JSONObject() (*Automaton, error) {
	return c.compile("object", anyObject)
}
