package settings

import (
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Read reads a tree into a pointer to a struct, which holds the defaults. A tree is a document as JSON has it:
// map[string]any, []any, string, bool, nil, json.Number. Types are never converted: "8" in quotes is no number. It goes
// on after a fault; a value with a fault keeps what was there before.
func (t Table) Read(tree, into any) Faults {
	r := &reader{table: t}
	r.value(tree, reflect.ValueOf(into).Elem(), "")
	return r.faults
}

// Set reads the value of one known key.
func (t Table) Set(into any, path string, tree any) Faults {
	r := &reader{table: t}
	key, _ := t.Key(path)
	r.value(tree, key.Of(into), path)
	return r.faults
}

// Omitted stands in a tree for a value that was refused already.
type Omitted struct{}

type reader struct {
	table  Table
	faults Faults
}

// refuse reports a value whose form is wrong.
func (r *reader) refuse(path, format string, args ...any) {
	r.faults = append(r.faults, &Fault{Path: path, Text: fmt.Sprintf(format, args...), Form: true})
}

func (r *reader) value(tree any, v reflect.Value, path string) {
	switch tree.(type) {
	case nil:
		r.refuse(path, "there is no value; give one, or leave the key out for the default")
		return
	case Omitted:
		return
	}
	switch into := v.Addr().Interface().(type) {
	case json.Unmarshaler:
		r.open(tree, into, path)
		return
	case encoding.TextUnmarshaler:
		r.text(tree, into, v, path)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		r.optional(tree, v, path)
	case reflect.Struct:
		r.object(tree, v, path)
	case reflect.Slice:
		r.list(tree, v, path)
	default:
		r.scalar(tree, v, path)
	}
}

// object reads a mapping into a struct whose fields are named by their json tags.
func (r *reader) object(tree any, v reflect.Value, path string) {
	object, ok := tree.(map[string]any)
	if !ok {
		r.notKeys(tree, path)
		return
	}
	known := map[string]bool{}
	for _, f := range fieldsOf(v.Type()) {
		known[f.name] = true
		if value, given := object[f.name]; given {
			r.value(value, v.FieldByIndex(f.index), Join(path, f.name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if !known[name] {
			r.faults.Add(Join(path, name), "%s", r.table.Unknown(path, name))
		}
	}
}

// optional reads a section that a document may leave out; one that is given begins with the defaults of its keys.
func (r *reader) optional(tree any, v reflect.Value, path string) {
	section := r.table.section(v.Type().Elem(), path)
	r.value(tree, section.Elem(), path)
	v.Set(section)
}

func (r *reader) list(tree any, v reflect.Value, path string) {
	items, ok := tree.([]any)
	if !ok {
		r.refuse(path, "want a list, not %s", describe(tree))
		return
	}
	list := reflect.MakeSlice(v.Type(), len(items), len(items))
	for i, item := range items {
		r.value(item, list.Index(i), fmt.Sprintf("%s[%d]", path, i))
	}
	v.Set(list)
}

// open reads a section that judges most of its keys itself, such as an environment: those that it names are read, and
// it is given the others as JSON.
func (r *reader) open(tree any, into json.Unmarshaler, path string) {
	object, ok := tree.(map[string]any)
	if !ok {
		r.notKeys(tree, path)
		return
	}
	before, v := len(r.faults), reflect.ValueOf(into).Elem()
	for _, f := range fieldsOf(v.Type()) {
		if value, given := object[f.name]; given {
			r.value(value, v.FieldByIndex(f.index), Join(path, f.name))
		}
	}
	if len(r.faults) > before {
		return
	}
	text, err := json.Marshal(object)
	if err == nil {
		err = into.UnmarshalJSON(text)
	}
	if err != nil {
		r.refuse(path, "want values that JSON has: %v", err)
	}
}

// notKeys refuses what should be a section.
func (r *reader) notKeys(tree any, path string) {
	such := ""
	if key, _ := r.table.Key(path); key.Example != "" {
		such = ", such as " + key.Example
	}
	r.refuse(path, "want keys with values%s, not %s", such, describe(tree))
}

// scalar reads a single value.
func (r *reader) scalar(tree any, v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.String:
		if text, ok := tree.(string); ok {
			v.SetString(text)
			return
		}
		r.refuse(path, "want a text, not %s%s", describe(tree), quoteIt(tree))
	case reflect.Bool:
		if b, ok := tree.(bool); ok {
			v.SetBool(b)
			return
		}
		r.refuse(path, "want true or false, not %s", describe(tree))
	case reflect.Int, reflect.Int64:
		r.whole(tree, v, path)
	case reflect.Float64:
		if x, ok := numberIn(tree); ok {
			v.SetFloat(x)
			return
		}
		r.refuse(path, "want a number, not %s%s", describe(tree), unquoteIt(tree))
	default:
		// A new field of a type nobody taught it.
		panic(fmt.Sprintf("settings: %s: fields of type %s cannot be read", path, v.Type()))
	}
}

func (r *reader) whole(tree any, v reflect.Value, path string) {
	number, _ := tree.(json.Number)
	if n, err := number.Int64(); err == nil && !v.OverflowInt(n) {
		v.SetInt(n)
		return
	}
	if x, ok := numberIn(tree); ok && math.Abs(x) >= math.MaxInt64 {
		r.refuse(path, "%s is out of range: no count here is so large", describe(tree))
		return
	}
	want := "a whole number"
	if key, _ := r.table.Key(path); key.Bytes {
		if n, ok := sizeOf(tree); ok {
			v.SetInt(n)
			return
		}
		want = "bytes, or a number of KiB, MiB, GiB or TiB, such as 2GiB"
	}
	r.refuse(path, "want %s, not %s%s", want, describe(tree), unquoteIt(tree))
}

// text reads a value that reads itself from text, such as a duration.
func (r *reader) text(tree any, into encoding.TextUnmarshaler, v reflect.Value, path string) {
	text, ok := tree.(string)
	if !ok {
		hint := ""
		if _, number := numberIn(tree); number {
			hint = "; add a unit, such as " + shorten(fmt.Sprint(tree)) + "s"
		}
		r.refuse(path, "want a duration such as 90s, 15m or 1h30m, not %s%s", describe(tree), hint)
		return
	}
	before := reflect.New(v.Type()).Elem()
	before.Set(v)
	if err := into.UnmarshalText([]byte(text)); err != nil {
		v.Set(before)
		r.refuse(path, "%v", err)
	}
}

// numberIn is a finite number.
func numberIn(tree any) (float64, bool) {
	number, _ := tree.(json.Number)
	x, err := number.Float64()
	return x, err == nil && !math.IsInf(x, 0) && !math.IsNaN(x)
}

// describe names what stands in a document, in its own words.
func describe(tree any) string {
	switch tree := tree.(type) {
	case nil:
		return "nothing"
	case map[string]any:
		return "keys with values"
	case []any:
		return "a list"
	case json.Number:
		return "the number " + shorten(fmt.Sprint(tree))
	case bool:
		return fmt.Sprint(tree)
	case string:
		if strings.Contains(tree, "\n") {
			return "a text of several lines"
		}
		return "the text " + shorten(strconv.Quote(tree))
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

func quoteIt(tree any) string {
	_, number := numberIn(tree)
	if _, truth := tree.(bool); number || truth {
		return "; put it in quotes"
	}
	return ""
}

func unquoteIt(tree any) string {
	text, ok := tree.(string)
	if !ok {
		return ""
	}
	if _, number := numberIn(json.Number(text)); number && json.Valid([]byte(text)) {
		return "; take the quotes off"
	}
	return ""
}

// units are the units of a size, the largest first. Powers of 1000 are left out, because they are easily confused.
var units = []struct {
	name string
	size float64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// sizeOf is bytes that are given in a unit.
func sizeOf(tree any) (int64, bool) {
	text, _ := tree.(string)
	for _, unit := range units {
		if figure, ok := strings.CutSuffix(text, unit.name); ok {
			x, err := strconv.ParseFloat(strings.TrimSpace(figure), 64)
			n := x * unit.size
			return int64(n), err == nil && n >= 0 && n < math.MaxInt64/2
		}
	}
	return 0, false
}
