package settings

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Reading is what is known of a document beside its values.
type Reading struct {
	Given  func(path string) bool // whether the document says something about a key; nil: about every one
	Faults Faults                 // found so far; what has one is not judged again
}

func (r Reading) given(path string) bool { return r.Given == nil || r.Given(path) }

// Check reports every value of a document, a pointer to a struct, that breaks the rule of its key.
func (t Table) Check(doc any, reading Reading) Faults {
	var faults Faults
	for _, key := range t.Keys {
		for _, at := range find(reflect.ValueOf(doc).Elem(), "", key.Path) {
			if reading.Faults.Has(at.path) {
				continue
			}
			if text := key.fault(at.value, reading.given(at.path)); text != "" {
				faults.Add(at.path, "%s", text)
			}
		}
	}
	return faults
}

// fault says what is wrong with a value; empty: nothing.
func (k Key) fault(v reflect.Value, given bool) string {
	switch {
	case k.Required && v.IsZero() && !given:
		return "is missing: " + k.Doc
	case k.Required && v.IsZero() && v.Kind() == reflect.String:
		return "must not be empty: " + k.Doc
	case len(k.OneOf) > 0 && !slices.Contains(k.OneOf, fmt.Sprint(v.Interface())):
		return fmt.Sprintf("%s is not one of %s%s", cmp.Or(fmt.Sprint(v.Interface()), `""`), strings.Join(k.OneOf, ", "),
			meant(v, k.OneOf))
	}
	x, show, ok := measure(v)
	switch {
	case !ok:
		return ""
	case k.Above != nil && x <= *k.Above:
		return show(x) + " is not more than " + show(*k.Above)
	case k.Min != nil && x < *k.Min:
		return show(x) + " is less than " + show(*k.Min)
	case k.Max != nil && x > *k.Max:
		return show(x) + " is more than " + show(*k.Max)
	}
	return ""
}

func meant(v reflect.Value, words []string) string {
	if v.Kind() != reflect.String {
		return ""
	}
	if near := Nearest(v.String(), words); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}
