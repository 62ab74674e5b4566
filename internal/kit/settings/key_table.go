package settings

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Key is one row of a table. Its path leads to the field that holds the value, by json tags; what kind of value it
// is, the field's type says.
type Key struct {
	Path     string // keys of a list's items are named by the list
	Doc      string
	Default  any // nil: the zero value
	Required bool
	Min, Max *float64 // both included; seconds for a duration
	Above    *float64 // the value must be greater
	OneOf    []string
	Bytes    bool // a size: KiB, MiB, GiB and TiB may stand behind the number
	Example  string
	Live     bool // may be changed while a run goes on, or a process of the service runs
}

// Table is every key of one kind of document.
type Table struct {
	Keys  []Key
	Hints map[string]string // for keys that people will try and that cannot be
}

// ReadTable reads a table that is part of the program, in JSON. A default that is a time is written as one.
func ReadTable(document []byte) (t Table) {
	if err := json.Unmarshal(document, &t); err != nil {
		panic(err) // The program is broken.
	}
	for i := range t.Keys {
		text, _ := t.Keys[i].Default.(string)
		if d, err := time.ParseDuration(text); err == nil {
			t.Keys[i].Default = d
		}
	}
	return t
}

// Key is the row of a path.
func (t Table) Key(path string) (Key, bool) {
	at := slices.IndexFunc(t.Keys, func(k Key) bool { return k.Path == path })
	if at < 0 {
		return Key{}, false
	}
	return t.Keys[at], true
}

// Of is the value that a document, a pointer to a struct, has for the key; the zero Value if the key is of a list's
// items.
func (k Key) Of(doc any) reflect.Value {
	places := find(reflect.ValueOf(doc).Elem(), "", k.Path)
	if len(places) != 1 || places[0].path != k.Path {
		return reflect.Value{}
	}
	return places[0].value
}

// Text is the value that a document has for the key, as people write it.
func (k Key) Text(doc any) string { return fmt.Sprint(k.Of(doc).Interface()) }

// Standard is the key's default, of the type of its field.
func (k Key) Standard(t reflect.Type) reflect.Value {
	if k.Default == nil {
		return reflect.Zero(t)
	}
	return reflect.ValueOf(k.Default).Convert(t)
}

// SetDefault gives the key its default in a document.
func (k Key) SetDefault(doc any) {
	if v := k.Of(doc); v.IsValid() {
		v.Set(k.Standard(v.Type()))
	}
}

// SetDefaults gives every key of a document that has a default its default.
func (t Table) SetDefaults(doc any) {
	for _, key := range t.Keys {
		if key.Default != nil {
			key.SetDefault(doc)
		}
	}
}

// Values says what the key may be, for help and documentation.
func (k Key) Values(doc any) string {
	show := func(x float64) string { return fmt.Sprint(x) }
	if v := k.Of(doc); v.IsValid() {
		if _, s, ok := measure(v); ok {
			show = s
		}
	}
	switch {
	case len(k.OneOf) > 0:
		return strings.Join(k.OneOf, ", ")
	case k.Above != nil && k.Max != nil:
		return "more than " + show(*k.Above) + ", to " + show(*k.Max)
	case k.Above != nil:
		return "more than " + show(*k.Above)
	case k.Min != nil && k.Max != nil:
		return show(*k.Min) + " to " + show(*k.Max)
	case k.Min != nil:
		return "from " + show(*k.Min)
	}
	return ""
}

// section is a new section of a document that may do without it, a pointer to a struct, with the defaults of its keys.
func (t Table) section(of reflect.Type, path string) reflect.Value {
	section := reflect.New(of)
	for _, key := range t.Keys {
		below, within := strings.CutPrefix(key.Path, path+".")
		if !within || key.Default == nil {
			continue
		}
		for _, at := range find(section.Elem(), path, below) {
			at.value.Set(key.Standard(at.value.Type()))
		}
	}
	return section
}

// duration is a time that reads itself from text.
type duration interface{ Seconds() float64 }

// isOpen reports whether a section judges most of its keys itself.
func isOpen(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}

// measure is a value as a number, and how to show such numbers.
func measure(v reflect.Value) (x float64, show func(float64) string, ok bool) {
	number := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	if d, is := v.Interface().(duration); is {
		return d.Seconds(), func(x float64) string { return time.Duration(x * float64(time.Second)).String() }, true
	}
	switch v.Kind() {
	case reflect.Int, reflect.Int64:
		return float64(v.Int()), number, true
	case reflect.Float64:
		return v.Float(), number, true
	}
	return 0, nil, false
}

// FillWords gives every empty word of a document that has a default its default: it means the same.
func (t Table) FillWords(doc any) {
	for _, k := range t.Keys {
		if v := k.Of(doc); len(k.OneOf) > 0 && k.Default != nil && v.IsValid() && v.Kind() == reflect.String && v.Len() == 0 {
			k.SetDefault(doc)
		}
	}
}
