package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// rule says what one key means and which values it may have. One table of rules serves reading, the JSON schema for
// editors and its texts, so that they cannot differ.
type rule struct {
	path     string // list items are named by the list
	doc      string
	required bool
	min, max *float64 // both included; seconds for a duration
	above    *float64 // the value must be greater
	oneOf    []string
	bytes    bool // a size: KiB, MiB, GiB and TiB may stand behind the number
	example  string
}

// table is every key of one kind of file.
type table struct {
	rules []rule
	hints map[string]string // for keys that people will try and that cannot be
}

func limit(x float64) *float64 { return &x }

func (t table) rule(path string) (rule, bool) {
	at := slices.IndexFunc(t.rules, func(r rule) bool { return r.path == path })
	if at < 0 {
		return rule{}, false
	}
	return t.rules[at], true
}

// unknown says what somebody who wrote an unknown key may have meant: a key spelt like it, or the same key elsewhere.
func (t table) unknown(path, name string, known []string) string {
	list, _, _ := strings.Cut(path, "[") // items are named by their list
	if hint, ok := t.hints[join(list, name)]; ok {
		return hint
	}
	if near := nearest(name, known); near != "" {
		return "unknown key; did you mean " + near + "?"
	}
	for _, r := range t.rules {
		if r.path == name || strings.HasSuffix(r.path, "."+name) {
			return "unknown key here; did you mean " + r.path + "?"
		}
	}
	return "unknown key; known here are " + strings.Join(known, ", ")
}

// check reports every value that breaks its rule. A value whose reading failed is not judged again.
func (r *reader) check(v any) {
	for _, rule := range r.table.rules {
		for _, at := range find(reflect.ValueOf(v).Elem(), "", rule.path) {
			r.checkOne(rule, at.path, at.value)
		}
	}
}

// found is one value of a rule; a rule for the items of a list has many.
type found struct {
	path  string
	value reflect.Value
}

func find(v reflect.Value, at, rest string) []found {
	if rest == "" {
		return []found{{at, v}}
	}
	if v.Kind() == reflect.Slice {
		var all []found
		for i := range v.Len() {
			all = append(all, find(v.Index(i), fmt.Sprintf("%s[%d]", at, i), rest)...)
		}
		return all
	}
	if _, opaque := v.Interface().(rollout.Environment); opaque {
		return nil // It is judged as a whole.
	}
	name, rest, _ := strings.Cut(rest, ".")
	for _, f := range fieldsOf(v.Type()) {
		if f.name == name {
			return find(v.Field(f.index), join(at, name), rest)
		}
	}
	return nil
}

func (r *reader) checkOne(rule rule, path string, v reflect.Value) {
	if r.hasFault(path) {
		return
	}
	_, given := r.places[path]
	switch {
	case rule.required && v.IsZero() && !given:
		r.faultAt(path, "is missing: %s", rule.doc)
		return
	case rule.required && v.IsZero() && v.Kind() == reflect.String:
		r.faultAt(path, "must not be empty: %s", rule.doc)
		return
	}
	if len(rule.oneOf) > 0 && !slices.Contains(rule.oneOf, fmt.Sprint(v.Interface())) {
		r.faultAt(path, "%v is not one of %s%s", v.Interface(), strings.Join(rule.oneOf, ", "), meant(v, rule.oneOf))
		return
	}
	x, show, ok := measure(v)
	if !ok {
		return
	}
	switch {
	case rule.above != nil && x <= *rule.above:
		r.faultAt(path, "%s is not more than %s", show(x), show(*rule.above))
	case rule.min != nil && x < *rule.min:
		r.faultAt(path, "%s is less than %s", show(x), show(*rule.min))
	case rule.max != nil && x > *rule.max:
		r.faultAt(path, "%s is more than %s", show(x), show(*rule.max))
	}
}

func (r *reader) hasFault(path string) bool {
	return slices.ContainsFunc(r.faults, func(f *Fault) bool { return f.Path == path })
}

func meant(v reflect.Value, words []string) string {
	if v.Kind() != reflect.String {
		return ""
	}
	if near := nearest(v.String(), words); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// measure is a value as a number, and how to show such numbers.
func measure(v reflect.Value) (x float64, show func(float64) string, ok bool) {
	number := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	if d, isDuration := v.Interface().(rollout.Duration); isDuration {
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
