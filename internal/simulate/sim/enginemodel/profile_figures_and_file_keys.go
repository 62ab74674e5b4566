package enginemodel

import (
	_ "embed"
	"encoding/json"
	"reflect"

	"github.com/millrace/millrace/internal/kit/settings"
)

// row is one figure of a profile, as a file names it.
type row struct {
	Section, Key string
	Doc          string
	Least        float64
	Above        bool // the value must be more than the least
	Whole        bool // a count
	Optional     bool
	field        []int // of a Profile
}

func (r *row) path() string { return settings.Join(r.Section, r.Key) }

// rows is every figure, in the order of a file.
//
//go:embed figures.json
var figures []byte

// rows is every figure, in the order of a file.
var rows = func() (all []row) {
	if err := json.Unmarshal(figures, &all); err != nil {
		panic(err) // It is part of the program.
	}
	profile := reflect.TypeFor[Profile]()
	for i := range all {
		section := fieldOf(profile, all[i].Section)
		all[i].field = append(section.Index, fieldOf(section.Type, all[i].Key).Index...)
	}
	return all
}()

// fieldOf is the field that a key of a file is read into.
func fieldOf(of reflect.Type, key string) reflect.StructField {
	for i := range of.NumField() {
		if of.Field(i).Tag.Get("json") == key {
			return of.Field(i)
		}
	}
	panic("a profile has no key " + key)
}

func (r *row) of(p *Profile) *Figure {
	return reflect.ValueOf(p).Elem().FieldByIndex(r.field).Addr().Interface().(*Figure)
}

// physicalSections may be left out together: then nothing is held against physics.
var physicalSections = []string{"gpu", "model"}

var kinds = []string{string(Measured), string(Published), string(Computed), string(Scaled), string(Configured),
	string(Assumed)}

// keys is the table by which a profile's file is read.
var keys = func() settings.Table {
	t := settings.Table{Keys: []settings.Key{
		{Path: "name", Doc: "the profile's name", Required: true},
		{Path: "about", Doc: "what it is a profile of"},
		{Path: "gpu.name", Doc: "the GPU's name"}, {Path: "model.name", Doc: "the model's name"},
	}}
	sections := map[string]bool{}
	for i := range rows {
		r := &rows[i]
		if !sections[r.Section] {
			sections[r.Section] = true
			t.Keys = append(t.Keys, settings.Key{Path: r.Section, Doc: "figures"})
		}
		t.Keys = append(t.Keys, settings.Key{Path: r.path(), Doc: r.Doc},
			settings.Key{Path: r.path() + ".value", Doc: r.Doc},
			settings.Key{Path: r.path() + ".kind", Doc: "how the figure came about", OneOf: kinds},
			settings.Key{Path: r.path() + ".source", Doc: "where the figure comes from"})
	}
	return t
}()

// NamedFigure is a figure with its place in a profile.
type NamedFigure struct {
	Section, Key string
	Figure
}

// Figures is every figure of a profile that is given, in the order of a file.
func (p *Profile) Figures() []NamedFigure {
	var all []NamedFigure
	for i := range rows {
		if f := rows[i].of(p); f.Source != "" {
			all = append(all, NamedFigure{rows[i].Section, rows[i].Key, *f})
		}
	}
	return all
}
