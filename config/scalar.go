package config

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// scalar reads a single value. Types are never converted: "8" in quotes is no number, and yes is no boolean.
func (r *reader) scalar(node ast.Node, v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.String:
		if text, ok := textOf(node); ok {
			v.SetString(text)
			return
		}
		r.fault(position(node), path, "want a text, not %s%s", describe(node), quoteIt(node))
	case reflect.Bool:
		if b, ok := node.(*ast.BoolNode); ok {
			v.SetBool(b.Value)
			return
		}
		r.fault(position(node), path, "want true or false, not %s", describe(node))
	case reflect.Int, reflect.Int64:
		if rule, _ := r.table.rule(path); rule.bytes && r.size(node, v, path) {
			return
		}
		if n, ok := wholeOf(node); ok && !v.OverflowInt(n) {
			v.SetInt(n)
			return
		}
		if x, ok := numberOf(node); ok && math.Abs(x) >= math.MaxInt64 {
			r.fault(position(node), path, "%s is out of range: no count here is so large", describe(node))
			return
		}
		r.fault(position(node), path, "want a whole number, not %s%s", describe(node), unquoteIt(node))
	case reflect.Float64:
		if x, ok := numberOf(node); ok {
			v.SetFloat(x)
			return
		}
		r.fault(position(node), path, "want a number, not %s%s", describe(node), unquoteIt(node))
	default:
		panic(fmt.Sprintf("config: %s: fields of type %s cannot be read", path, v.Type())) // A new field of a type nobody taught it.
	}
}

// byteUnits are the units that a size may have, as with millrace run set. Powers of 1000 are left out: too close to
// be told apart.
var byteUnits = map[string]float64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}

// size reads bytes that are given in a unit. It leaves plain numbers to others, which is what false says.
func (r *reader) size(node ast.Node, v reflect.Value, path string) bool {
	text, ok := textOf(node)
	if _, number := numberOf(node); !ok || number {
		return false
	}
	figure := strings.TrimRight(text, "KMGTiB")
	x, err := strconv.ParseFloat(strings.TrimSpace(figure), 64)
	unit, known := byteUnits[text[len(figure):]]
	if n := x * unit; err == nil && known && n >= 0 && n < math.MaxInt64/2 {
		v.SetInt(int64(n))
		return true
	}
	r.fault(position(node), path, "want bytes, or a number of KiB, MiB, GiB or TiB, such as 2GiB, not %s%s", describe(node), unquoteIt(node))
	return true
}

// text reads a value that reads itself from text, such as a duration.
func (r *reader) text(node ast.Node, into encoding.TextUnmarshaler, v reflect.Value, path string) {
	text, ok := textOf(node)
	if !ok {
		hint := ""
		if _, number := numberOf(node); number {
			hint = "; add a unit, such as " + node.GetToken().Value + "s"
		}
		r.fault(position(node), path, "want a duration such as 90s, 15m or 1h30m, not %s%s", describe(node), hint)
		return
	}
	before := reflect.New(v.Type()).Elem()
	before.Set(v)
	if err := into.UnmarshalText([]byte(text)); err != nil {
		v.Set(before)
		r.fault(position(node), path, "%v", err)
	}
}

// plain is a node as JSON has it.
func (r *reader) plain(node ast.Node, path string, depth int) any {
	if depth > maxDepth {
		r.fault(position(node), path, "nested deeper than %d levels", maxDepth)
		return nil
	}
	switch node := node.(type) {
	case *ast.NullNode:
		return nil
	case *ast.BoolNode:
		return node.Value
	case *ast.SequenceNode:
		list := make([]any, len(node.Values))
		for i, item := range node.Values {
			at := fmt.Sprintf("%s[%d]", path, i)
			r.places[at] = position(item)
			list[i] = r.plain(item, at, depth+1)
		}
		return list
	case *ast.MappingNode, *ast.MappingValueNode:
		pairs, _ := r.pairs(node, path, "keys with values")
		object, seen := map[string]any{}, map[string]int{}
		for _, pair := range pairs {
			if key := r.key(pair, path, seen); key != "" {
				object[key] = r.plain(pair.Value, join(path, key), depth+1)
			}
		}
		return object
	}
	if n, ok := wholeOf(node); ok {
		return n
	}
	if x, ok := numberOf(node); ok {
		return x
	}
	if text, ok := textOf(node); ok {
		return text
	}
	why := unsupported(node)
	if why == "" {
		why = "want a value that JSON has, not " + describe(node)
	}
	r.fault(position(node), path, "%s", why)
	return nil
}

func textOf(node ast.Node) (string, bool) {
	switch node := node.(type) {
	case *ast.StringNode:
		return node.Value, true
	case *ast.LiteralNode:
		return node.Value.Value, true
	}
	return "", false
}

func wholeOf(node ast.Node) (int64, bool) {
	n, ok := node.(*ast.IntegerNode)
	if !ok {
		return 0, false
	}
	switch value := n.Value.(type) {
	case int64:
		return value, true
	case uint64:
		return int64(value), value <= math.MaxInt64
	}
	return 0, false
}

// numberOf is a finite number.
func numberOf(node ast.Node) (float64, bool) {
	if n, ok := wholeOf(node); ok {
		return float64(n), true
	}
	switch node := node.(type) {
	case *ast.FloatNode:
		return node.Value, !math.IsInf(node.Value, 0) && !math.IsNaN(node.Value)
	case *ast.StringNode:
		if quoted(node) || !strings.ContainsAny(node.Value, "0123456789") || strings.ContainsAny(node.Value, "xX_pP") {
			return 0, false
		}
		x, err := strconv.ParseFloat(node.Value, 64) // The parser takes 1e-07 for a text; JSON and YAML 1.2 do not.
		return x, err == nil
	}
	return 0, false
}

// quoted reports whether a text stands in quotes, and so cannot be anything else.
func quoted(node *ast.StringNode) bool {
	t := node.GetToken()
	return t != nil && (t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType)
}

// describe names what stands in the file, in its own words.
func describe(node ast.Node) string {
	switch node := node.(type) {
	case nil, *ast.NullNode:
		return "nothing"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "keys with values"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode:
		if _, number := numberOf(node); number {
			return "the number " + shorten(node.Value)
		}
		return "the text " + shorten(strconv.Quote(node.Value))
	case *ast.LiteralNode:
		return "a text of several lines"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "the number " + shorten(node.GetToken().Value)
	case *ast.BoolNode:
		return node.GetToken().Value
	}
	return "this"
}

const maxShown = 24

func shorten(s string) string {
	if letters := []rune(s); len(letters) > maxShown {
		return string(letters[:maxShown]) + "..."
	}
	return s
}

func quoteIt(node ast.Node) string {
	switch node.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return "; put it in quotes"
	}
	return ""
}

func unquoteIt(node ast.Node) string {
	text, ok := node.(*ast.StringNode)
	if !ok || !quoted(text) {
		return ""
	}
	if _, err := strconv.ParseFloat(text.Value, 64); err != nil {
		return ""
	}
	return "; take the quotes off"
}
