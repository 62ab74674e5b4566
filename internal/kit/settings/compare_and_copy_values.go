package settings

import (
	"reflect"
	"strings"
)

// Differences is the keys for which two documents of one type, pointers to structs, have different values. A list
// differs as a whole; a section that only one of them has does, too.
func (t Table) Differences(a, b any) []Key {
	var keys []Key
	for _, key := range t.Keys {
		if t.inList(key.Path, a) {
			continue
		}
		va, vb := key.Of(a), key.Of(b)
		if !va.IsValid() || !vb.IsValid() {
			continue // in a section that one of them lacks: the section differs
		}
		if differ(va, vb) {
			keys = append(keys, key)
		}
	}
	return keys
}

// inList reports whether a key is one of the items of a list.
func (t Table) inList(path string, doc any) bool {
	for at := strings.LastIndexByte(path, '.'); at > 0; at = strings.LastIndexByte(path[:at], '.') {
		parent, ok := t.Key(path[:at])
		if v := parent.Of(doc); ok && v.IsValid() && v.Kind() == reflect.Slice {
			return true
		}
	}
	return false
}

func differ(a, b reflect.Value) bool {
	switch {
	case a.Kind() == reflect.Struct && len(fieldsOf(a.Type())) > 0:
		return false // a section: its keys are compared
	case a.Kind() == reflect.Pointer:
		return a.IsNil() != b.IsNil()
	case a.Kind() == reflect.Slice && a.Len() == 0 && b.Len() == 0:
		return false
	}
	return !reflect.DeepEqual(a.Interface(), b.Interface())
}

// Take gives a document the value that another one of its type has for the key.
func (k Key) Take(doc, from any) {
	to, value := k.Of(doc), k.Of(from)
	if to.IsValid() && value.IsValid() {
		to.Set(value)
	}
}
