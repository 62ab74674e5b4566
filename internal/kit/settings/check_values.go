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

// Unknown suggests what was meant by an unknown key in a section: a key spelt like it, or the same key elsewhere. A
// suggested key has its whole path, as on a command line.
func (t Table) Unknown(section, name string) string {
	list, _, _ := strings.Cut(section, "[") // items are named by their list
	if hint, ok := t.Hints[Join(list, name)]; ok {
		return hint
	}
	known := t.below(list)
	if near := Nearest(name, known); near != "" {
		return "unknown key; did you mean " + Join(section, near) + "?"
	}
	for _, k := range t.Keys {
		if k.Path == name || strings.HasSuffix(k.Path, "."+name) {
			return "unknown key here; did you mean " + k.Path + "?"
		}
	}
	var elsewhere []string
	for _, k := range t.Keys {
		elsewhere = append(elsewhere, k.Path[strings.LastIndexByte(k.Path, '.')+1:])
	}
	if near := Nearest(name, elsewhere); near != "" && section == "" {
		return "unknown key; did you mean " + t.Keys[slices.Index(elsewhere, near)].Path + "?"
	}
	if len(known) == 0 {
		return "unknown key"
	}
	return "unknown key; known here are " + strings.Join(known, ", ")
}

// below is the names of the keys right below a section.
func (t Table) below(section string) []string {
	var names []string
	for _, k := range t.Keys {
		name, within := strings.CutPrefix(k.Path, Join(section, ""))
		if section == "" {
			name, within = k.Path, true
		}
		if within && !strings.Contains(name, ".") {
			names = append(names, name)
		}
	}
	return names
}

// FillWords gives every empty word of a document that has a default its default: it means the same.
func (t Table) FillWords(doc any) {
	for _, k := range t.Keys {
		if v := k.Of(doc); len(k.OneOf) > 0 && k.Default != nil && v.IsValid() && v.Kind() == reflect.String && v.Len() == 0 {
			k.SetDefault(doc)
		}
	}
}

// Nearest is the known word most likely meant by word, or "".
func Nearest(word string, known []string) string {
	best, bestDistance := "", max(2, len(word)/3)+1
	for _, k := range known {
		if len(word)-len(k) >= bestDistance {
			continue // whatever stands in it: a word that is sent may be long
		}
		if d := Distance(word, k); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// Distance counts the letters to add, drop, change or swap with their neighbour to get from a to b; the case does not
// count.
func Distance(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
