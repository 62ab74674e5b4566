package telemetry

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// KindCount is how many kinds of events there are.
func KindCount() int { return len(kinds) }

// EncodedField is a field of an event as Encode writes it, such as load.running of an engine_sample.
type EncodedField struct {
	Name string
	Type FieldType
	// Row is the field of the flat row that has the same value; empty: none has.
	Row string
	// Like names a part of a step record that the field is one of; its own fields are those.
	Like string
}

// parts are values that a page describes elsewhere.
var parts = map[reflect.Type]string{
	reflect.TypeFor[steprecord.StepRecord](): "a step", reflect.TypeFor[steprecord.GroupView](): "a group",
	reflect.TypeFor[rollout.Usage](): "a group's `usage`", reflect.TypeFor[steprecord.BufferCounts](): "a step's `at_claim`",
}

// EncodedFields are the fields of every kind of event, as Encode writes them beside the names that every event has.
func EncodedFields() map[string][]EncodedField {
	all := map[string][]EncodedField{}
	for name, k := range kinds {
		body := reflect.New(reflect.TypeOf(k.full())).Elem()
		w := encodedWalk{values: map[string]string{}}
		w.fill(body, "")
		for field, v := range Flat(Event{At: time.Unix(1, 0), Run: "r", Key: "k", Body: body.Interface().(Body)}) {
			if key := valueKey(reflect.ValueOf(v)); key != "" && w.values[key] != "" {
				w.rows(w.values[key], field)
			}
		}
		all[name] = w.fields
	}
	return all
}

// encodedWalk gives every field of a body a value of its own and notes which it is.
type encodedWalk struct {
	fields []EncodedField
	values map[string]string // the field that has a value
	n      int
}

func (w *encodedWalk) rows(field, row string) {
	i := slices.IndexFunc(w.fields, func(f EncodedField) bool { return f.Name == field })
	w.fields[i].Row = row
}

func (w *encodedWalk) fill(v reflect.Value, path string) {
	for v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]() && parts[v.Type()] == "" {
		for i := range v.NumField() {
			field := v.Type().Field(i)
			switch name, _, _ := strings.Cut(field.Tag.Get("json"), ","); {
			case field.Anonymous && name == "":
				w.fill(v.Field(i), path)
			case name != "" && name != "-":
				w.fill(v.Field(i), strings.TrimPrefix(path+"."+name, "."))
			}
		}
		return
	}
	w.n++
	f := EncodedField{Name: path, Type: encodedType(v.Type()), Like: parts[v.Type()]}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true) // which flag of a row it is, is not seen
	case reflect.String:
		v.SetString("v" + strings.Repeat("x", w.n))
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(int64(1000 + w.n))
	case reflect.Float64:
		v.SetFloat(float64(w.n) + 0.25)
	default:
		fill(v)
	}
	if f.Like == "" {
		w.values[valueKey(v)] = path
	}
	w.fields = append(w.fields, f)
}

func encodedType(t reflect.Type) FieldType {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return TimeField
	case t.Kind() == reflect.Slice:
		return "list"
	case t.Kind() == reflect.Struct:
		return "object"
	}
	return typeOf("", reflect.Zero(t).Interface())
}

// valueKey is a value's text, with its kind, where the value is one of a kind.
func valueKey(v reflect.Value) string {
	switch v.Kind() {
	case reflect.String:
		return "text " + v.String()
	case reflect.Int, reflect.Int64, reflect.Int32, reflect.Float64:
		b, _ := json.Marshal(v.Interface()) // numbers always can
		return "number " + string(b)
	}
	return ""
}
