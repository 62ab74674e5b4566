package config

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/millrace/millrace/internal/settings"
)

// tree is a node as plain values, which package settings reads. It notes the place of every key and value. What YAML
// has and files may not is a fault.
func (r *reader) tree(node ast.Node, path string, depth int) any {
	at := position(node)
	r.values[path] = at
	if depth > maxDepth {
		r.fault(at, path, "nested deeper than %d levels", maxDepth)
		return settings.Omitted{}
	}
	if why := unsupported(node); why != "" {
		r.fault(at, path, "%s", why)
		return settings.Omitted{}
	}
	switch node := node.(type) {
	case nil, *ast.NullNode:
		return nil
	case *ast.BoolNode:
		return node.Value
	case *ast.LiteralNode:
		return node.Value.Value
	case *ast.StringNode:
		return wordOf(node)
	case *ast.SequenceNode:
		list := make([]any, len(node.Values))
		for i, item := range node.Values {
			at := fmt.Sprintf("%s[%d]", path, i)
			r.places[at] = position(item)
			list[i] = r.tree(item, at, depth+1)
		}
		return list
	case *ast.MappingNode:
		return r.mapping(node.Values, path, depth)
	case *ast.MappingValueNode:
		return r.mapping([]*ast.MappingValueNode{node}, path, depth)
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return numberOf(node)
	}
	r.fault(at, path, "want a value that JSON has, not this")
	return settings.Omitted{}
}

// unsupported says why a node of YAML's more surprising kinds is not taken.
func unsupported(node ast.Node) string {
	switch node.(type) {
	case *ast.AliasNode, *ast.AnchorNode, *ast.MergeKeyNode:
		return "anchors and aliases are not taken; write the value out"
	case *ast.TagNode:
		return "tags are not taken; write the value alone"
	}
	return ""
}

func position(node ast.Node) *token.Position {
	if node == nil || node.GetToken() == nil {
		return nil
	}
	return node.GetToken().Position
}

func (r *reader) mapping(pairs []*ast.MappingValueNode, path string, depth int) map[string]any {
	object, lines := map[string]any{}, map[string]int{}
	for _, pair := range pairs {
		if key := r.key(pair, path, lines); key != "" {
			object[key] = r.tree(pair.Value, settings.Join(path, key), depth+1)
		}
	}
	return object
}

// key is a pair's key as text; empty when it is no plain text or was given before.
func (r *reader) key(pair *ast.MappingValueNode, path string, lines map[string]int) string {
	at := position(pair.Key)
	if _, merge := pair.Key.(*ast.MergeKeyNode); merge {
		r.fault(at, path, "merge keys are not taken; write the values out")
		return ""
	}
	text, ok := pair.Key.(*ast.StringNode)
	if !ok || text.Value == "" {
		r.fault(at, path, "a key must be a plain word, not %s", keyText(pair.Key))
		return ""
	}
	name := settings.Join(path, text.Value)
	if first, again := lines[text.Value]; again {
		r.fault(at, name, "given twice, first in line %d; keep one", first)
		return ""
	}
	if at != nil {
		lines[text.Value] = at.Line
		r.places[name] = at
	}
	return text.Value
}

// keyText names a key that is no word.
func keyText(node ast.Node) string {
	if text, ok := node.(*ast.StringNode); ok {
		return strconv.Quote(text.Value)
	}
	if node == nil || node.GetToken() == nil {
		return "this"
	}
	return strconv.Quote(node.GetToken().Value)
}

// wordOf is a text. One without quotes may be a number to people and not to the parser, such as 1e-07.
func wordOf(node *ast.StringNode) any {
	if quoted(node) || !strings.ContainsAny(node.Value, "0123456789") || strings.ContainsAny(node.Value, "xX_pP") {
		return node.Value
	}
	if _, err := strconv.ParseFloat(node.Value, 64); err != nil {
		return node.Value
	}
	return settings.Bare(node.Value)
}

// quoted reports whether a text stands in quotes, and so cannot be anything else.
func quoted(node *ast.StringNode) bool {
	t := node.GetToken()
	return t != nil && (t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType)
}

// numberOf is a number as the file has it.
func numberOf(node ast.Node) settings.Number {
	text := node.GetToken().Value
	number := settings.Number{Value: json.Number(text), Text: text}
	switch node := node.(type) {
	case *ast.IntegerNode:
		number.Value = json.Number(fmt.Sprint(node.Value)) // an int64 or a uint64
	case *ast.FloatNode:
		number.Value = json.Number(strconv.FormatFloat(node.Value, 'e', -1, 64)) // and 4.0 is no count
	}
	return number
}
