package telemetry

import (
	"maps"
	"reflect"
	"slices"
	"time"
)

// FieldType is what a field of a flat row holds.
type FieldType string

// The types of fields.
const (
	TextField  FieldType = "text"
	TimeField  FieldType = "time"
	CountField FieldType = "integer"
	FloatField FieldType = "number"
	FlagField  FieldType = "true or false"
	MapField   FieldType = "map" // of open-ended names
)

// Field is a field of flat rows.
type Field struct {
	Name string
	Type FieldType
}

// KindFields is a kind of event with the fields that its flat rows may have, in the order of their names. Not every row
// has all of them.
type KindFields struct {
	Kind   string
	Sample bool
	Fields []Field
}

// Schema is all kinds of events with their fields, in the order of their names: what a table-shaped sink must be ready
// for. It is made from the kinds themselves.
func Schema() []KindFields {
	var all []KindFields
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		k := kinds[name]
		row := Flat(Event{At: time.Unix(1, 0), Run: "x", Engine: "x", Key: "x", Body: k.full()})
		of := KindFields{Kind: name, Sample: k.sample}
		for _, field := range slices.Sorted(maps.Keys(row)) {
			of.Fields = append(of.Fields, Field{field, typeOf(field, row[field])})
		}
		all = append(all, of)
	}
	return all
}

// Fields are the fields of all kinds together. A name that is whole numbers in one kind and not in another is a number.
func Fields() []Field {
	types := map[string]FieldType{}
	for _, k := range Schema() {
		for _, f := range k.Fields {
			if types[f.Name] != FloatField {
				types[f.Name] = f.Type
			}
		}
	}
	var all []Field
	for _, name := range slices.Sorted(maps.Keys(types)) {
		all = append(all, Field{name, types[name]})
	}
	return all
}

// full is a body of the kind with a value in every field.
func (k *kind) full() Body {
	body, err := k.decode([]byte("{}"))
	if err != nil {
		panic(err)
	}
	v := reflect.New(reflect.TypeOf(body)).Elem()
	fill(v)
	return v.Interface().(Body)
}

func typeOf(name string, v any) FieldType {
	if name == "_time" {
		return TimeField
	}
	switch reflect.ValueOf(v).Kind() {
	case reflect.Map:
		return MapField
	case reflect.Float32, reflect.Float64:
		return FloatField
	case reflect.Bool:
		return FlagField
	case reflect.String:
		return TextField
	}
	return CountField
}

// fill gives everything in a value a value of its own.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(0.5)
	case reflect.String:
		v.SetString("x")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1, 0)))
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i))
			}
		}
	}
}
