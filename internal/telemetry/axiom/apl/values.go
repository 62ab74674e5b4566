package apl

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Values are nil, bool, float64, string, time.Time, time.Duration, []any and map[string]any: what JSON has, and times.

// layouts are how times are written in data.
var layouts = []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05.999999999Z07:00",
	"2006-01-02 15:04:05", "2006-01-02", time.RFC1123Z, time.RFC1123}

// timeOf reads a time.
func timeOf(text string) (time.Time, bool) {
	for _, layout := range layouts {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC(), true
		}
	}
	return time.Time{}, false
}

// typeOf names a value's type as Axiom does.
func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return "integer"
		}
		return "float"
	case string:
		return "string"
	case time.Time:
		return "datetime"
	case time.Duration:
		return "timespan"
	case []any:
		return "array"
	case map[string]any:
		return "map"
	}
	return fmt.Sprintf("%T", v)
}

// textOf writes a value as a person reads it.
func textOf(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	case time.Duration:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// numberOf makes a value a number, where it is one.
func numberOf(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case string:
		f, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
		return f, err == nil
	case time.Duration:
		return float64(v), true
	case time.Time:
		return float64(v.UnixNano()), true
	}
	return 0, false
}

// number is a number or null: what has no value, as a division by zero, is null.
func number(f float64) any {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	return f
}

// ranks order values of different types; null is below all.
func rank(v any) int {
	return slices.Index([]string{"null", "boolean", "integer", "float", "timespan", "datetime", "string", "array", "map"},
		typeOf(v))
}

// compare orders two values; of different types, by the type.
func compare(a, b any) int {
	switch x := a.(type) {
	case float64:
		if y, ok := b.(float64); ok {
			return cmp.Compare(x, y)
		}
	case string:
		if y, ok := b.(string); ok {
			return strings.Compare(x, y)
		}
	case time.Time:
		if y, ok := b.(time.Time); ok {
			return x.Compare(y)
		}
	case time.Duration:
		if y, ok := b.(time.Duration); ok {
			return cmp.Compare(x, y)
		}
	case bool:
		if y, ok := b.(bool); ok {
			xn, _ := numberOf(x)
			yn, _ := numberOf(y)
			return cmp.Compare(xn, yn)
		}
	}
	if ra, rb := rank(a), rank(b); ra != rb {
		return cmp.Compare(ra, rb)
	}
	return strings.Compare(textOf(a), textOf(b))
}

// key tells values apart: equal values, and only these, have the same key.
func key(v any) string { return typeName(v) + textOf(v) }

func typeName(v any) string {
	if _, ok := v.(float64); ok {
		return "n"
	}
	return typeOf(v)[:1]
}
