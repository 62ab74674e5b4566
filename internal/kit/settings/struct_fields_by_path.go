package settings

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// found is one value of a key; a key of a list's items has many.
type found struct {
	path  string
	value reflect.Value
}

func find(v reflect.Value, at, rest string) []found {
	if rest == "" {
		return []found{{at, v}}
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil // a section that is not there
		}
		return find(v.Elem(), at, rest)
	case reflect.Slice:
		var all []found
		for i := range v.Len() {
			all = append(all, find(v.Index(i), fmt.Sprintf("%s[%d]", at, i), rest)...)
		}
		return all
	}
	name, rest, _ := strings.Cut(rest, ".")
	if v.Kind() != reflect.Struct {
		return nil
	}
	for _, f := range fieldsOf(v.Type()) {
		if f.name == name {
			return find(v.FieldByIndex(f.index), Join(at, name), rest)
		}
	}
	return nil
}

// Join is the path of a key below another.
func Join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// field is one field of a struct, as documents name it.
type field struct {
	name  string
	index []int
}

// fieldsOf lists the fields that documents may set: those with a name in their json tag, and those of embedded structs,
// as JSON has it.
func fieldsOf(t reflect.Type) []field {
	if known, ok := knownFields.Load(t); ok {
		return known.([]field)
	}
	var fields []field
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if t.Field(i).Anonymous && name == "" && t.Field(i).Type.Kind() == reflect.Struct {
			for _, inner := range fieldsOf(t.Field(i).Type) {
				fields = append(fields, field{inner.name, append([]int{i}, inner.index...)})
			}
			continue
		}
		if name != "" && name != "-" {
			fields = append(fields, field{name, []int{i}})
		}
	}
	knownFields.Store(t, fields)
	return fields
}

// knownFields keeps what fieldsOf found, by type.
var knownFields sync.Map
